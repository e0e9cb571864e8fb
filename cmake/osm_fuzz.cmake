# A fuzzer is tests/fuzz/<name>_fuzz.cpp, which adds itself by that name (fuzz.hpp).
#
#   osm_fuzzer(session LINK osm::rooms::ads [SOURCES files...] [SEEDS files or directories...])
#
# In the `fuzz` preset (OSM_FUZZ) it becomes fuzz_<name>, driven by libFuzzer, and nothing but the
# fuzzers is built (target `fuzzers`). Elsewhere osm_fuzz_replay(), called last, puts all
# into one program, fuzz_replay, which runs the committed seeds of one once, as the test
# fuzz.replay.<name>: every fuzzer is a plain test too, and needs no clang. SEEDS adds to
# tests/data/fuzz/<name>.
option(OSM_FUZZ "Build the fuzzers with libFuzzer (clang)" OFF)
if(OSM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "libFuzzer comes with clang: use the preset, cmake --preset fuzz")
  endif()
  add_custom_target(fuzzers)
endif()

function(osm_fuzzer name)
  cmake_parse_arguments(FUZZ "" "" "LINK;SOURCES;SEEDS" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/tests/fuzz)
  set(seeds ${PROJECT_SOURCE_DIR}/tests/data/fuzz/${name} ${FUZZ_SEEDS})
  if(NOT OSM_FUZZ)
    set_property(GLOBAL APPEND PROPERTY OSM_FUZZ_NAMES ${name})
    set_property(GLOBAL PROPERTY OSM_FUZZ_SEEDS_${name} ${seeds})
    set_property(GLOBAL APPEND PROPERTY OSM_FUZZ_FILES ${folder}/${name}_fuzz.cpp)
    set_property(GLOBAL APPEND PROPERTY OSM_FUZZ_SOURCES ${FUZZ_SOURCES})
    set_property(GLOBAL APPEND PROPERTY OSM_FUZZ_LINK ${FUZZ_LINK})
    return()
  endif()
  set(program fuzz_${name})
  add_executable(${program} EXCLUDE_FROM_ALL
    ${folder}/${name}_fuzz.cpp ${folder}/libfuzzer_main.cpp ${FUZZ_SOURCES})
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR})
  target_link_libraries(${program} PRIVATE ${FUZZ_LINK} osm_warnings)
  add_dependencies(fuzzers ${program})
  # For tools/fuzz: the places of a fuzzer's seeds, one a line.
  list(JOIN seeds "\n" lines)
  file(WRITE ${PROJECT_BINARY_DIR}/fuzzers/${name} "${lines}\n")
endfunction()

function(osm_fuzz_replay)
  if(OSM_FUZZ OR NOT OSM_UNIT_TESTS)
    return()
  endif()
  foreach(part NAMES FILES SOURCES LINK)
    get_property(${part} GLOBAL PROPERTY OSM_FUZZ_${part})
    list(REMOVE_DUPLICATES ${part})
  endforeach()
  osm_test_sources(compiled ${FILES})
  add_executable(fuzz_replay ${compiled} ${SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
  target_include_directories(fuzz_replay PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR})
  target_compile_options(fuzz_replay PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
  target_link_libraries(fuzz_replay PRIVATE ${LINK} osm_warnings)
  foreach(name ${NAMES})
    get_property(seeds GLOBAL PROPERTY OSM_FUZZ_SEEDS_${name})
    osm_test(NAME fuzz.replay.${name} TIER full KIND unit SANITIZED TIMEOUT 120
      COMMAND fuzz_replay ${name} ${seeds})
  endforeach()
endfunction()
