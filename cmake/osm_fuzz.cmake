# A fuzzer is tests/fuzz/<name>_fuzz.cpp with an LLVMFuzzerTestOneInput.
#
#   osm_fuzzer(session LINK osm::rooms::ads [SOURCES files...] [SEEDS files or directories...])
#
# In the `fuzz` preset (OSM_FUZZ) it becomes fuzz_<name>, driven by libFuzzer, and nothing but the
# fuzzers is built (target `fuzzers`). Elsewhere (asan-ubsan) it becomes replay_<name>, which runs the
# committed seeds once, as the test fuzz.replay.<name>: every fuzzer is a plain test too, and needs
# no clang. SEEDS adds to tests/fuzz/seeds/<name>.
option(OSM_FUZZ "Build the fuzzers with libFuzzer (clang)" OFF)
if(OSM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "libFuzzer comes with clang: use the preset, cmake --preset fuzz")
  endif()
  add_custom_target(fuzzers)
else()
  add_library(osm_fuzz_replay OBJECT ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
  target_include_directories(osm_fuzz_replay PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(osm_fuzz_replay PRIVATE osm_warnings)
endif()

function(osm_fuzzer name)
  cmake_parse_arguments(FUZZ "" "" "LINK;SOURCES;SEEDS" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/tests/fuzz)
  set(seeds ${folder}/seeds/${name} ${FUZZ_SEEDS})
  if(OSM_FUZZ)
    set(program fuzz_${name})
    add_executable(${program} EXCLUDE_FROM_ALL ${folder}/${name}_fuzz.cpp ${FUZZ_SOURCES})
    target_link_options(${program} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${program})
    # For tools/fuzz: the places of a fuzzer's seeds, one a line.
    list(JOIN seeds "\n" lines)
    file(WRITE ${PROJECT_BINARY_DIR}/fuzzers/${name} "${lines}\n")
  else()
    set(program replay_${name})
    add_executable(${program} ${folder}/${name}_fuzz.cpp ${FUZZ_SOURCES})
    target_link_libraries(${program} PRIVATE osm_fuzz_replay)
    osm_test(NAME fuzz.replay.${name} TIER full KIND unit TIMEOUT 120 COMMAND ${program} ${seeds})
  endif()
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${program} PRIVATE ${FUZZ_LINK} osm_warnings)
endfunction()
