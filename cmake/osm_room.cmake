# A room is one folder of libosm/ built as one library, with nothing on its include path but the
# front door, itself, and the rooms it may use: a forbidden include does not compile.
#
#   osm_room(catalog DEPENDS model spec endpoint certificate [PLUGIN] [LINK libraries...])
#
# DEPENDS lists rooms, and includes the rooms that they depend on. LINK lists other libraries. A PLUGIN
# is in libosm/plugins. Includes are written "<room>/<file>.hpp"; a large room sorts its files into
# folders of its own. Rooms are for this repository's own tests; hosts link products, which are
# composed of the rooms' objects (cmake/osm_products.cmake).
function(osm_room name)
  cmake_parse_arguments(ROOM "PLUGIN" "" "DEPENDS;LINK" ${ARGN})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  if(ROOM_PLUGIN)
    set(folder ${CMAKE_CURRENT_SOURCE_DIR}/plugins/${name})
  endif()
  # <build>/osm_rooms/<room>/<room> → libosm/<room>, so that the include path shows this room alone.
  set(view ${CMAKE_BINARY_DIR}/osm_rooms/${name})
  file(MAKE_DIRECTORY ${view})
  if(NOT EXISTS ${view}/${name})
    file(CREATE_LINK ${folder} ${view}/${name} SYMBOLIC)
  endif()

  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*/*.cpp)
  if(OSM_UNITY)
    osm_batches(sources ${name} ${sources})
  endif()
  add_library(osm_room_${name} STATIC ${sources})
  add_library(osm::rooms::${name} ALIAS osm_room_${name})
  target_include_directories(osm_room_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${view})
  list(TRANSFORM ROOM_DEPENDS PREPEND osm::rooms::)
  target_link_libraries(osm_room_${name} PUBLIC ${ROOM_DEPENDS} ${ROOM_LINK}
    PRIVATE osm_hardening osm_warnings)
  # OSM_CHECK quotes a path: without the prefix of the machine that built it.
  target_compile_options(osm_room_${name} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
endfunction()

# Sorts sources by SKIP_UNITY_BUILD_INCLUSION, which means what it does to CMake: a source is compiled
# alone, or in a batch with others.
function(osm_sort_for_batches alone batched)
  set(sources ${ARGN})
  set(apart)
  foreach(source ${sources})
    get_source_file_property(skip ${source} SKIP_UNITY_BUILD_INCLUSION)
    if(skip)
      list(APPEND apart ${source})
    endif()
  endforeach()
  list(REMOVE_ITEM sources "" ${apart})
  set(${alone} ${apart} PARENT_SCOPE)
  set(${batched} ${sources} PARENT_SCOPE)
endfunction()

# Sets RESULT to sources that include eight of the given ones each. CMake's own UNITY_BUILD would write
# them where the build directory of a host differs from ours, so that ccache would not know them there.
function(osm_batches result room)
  osm_sort_for_batches(compiled batched ${ARGN})
  set(number 0)
  while(batched)
    list(SUBLIST batched 0 8 some)
    list(REMOVE_ITEM batched ${some})
    list(TRANSFORM some REPLACE "(.+)" "#include \"\\1\"")
    list(JOIN some "\n" content)
    set(batch ${CMAKE_BINARY_DIR}/osm_batches/${room}/batch_${number}.cpp)
    file(CONFIGURE OUTPUT ${batch} CONTENT "${content}\n" @ONLY)
    list(APPEND compiled ${batch})
    math(EXPR number "${number} + 1")
  endwhile()
  set(${result} ${compiled} PARENT_SCOPE)
endfunction()

# Tests of a room: tests/<room>/*_test.cpp, and those of its folders, in one doctest program, one
# ctest entry.
# NOT_UNDER_TSAN names files that the tsan preset leaves out.
function(osm_room_test name)
  cmake_parse_arguments(TEST "" "COST" "LINK;NOT_UNDER_TSAN" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${name}/*_test.cpp
    ${PROJECT_SOURCE_DIR}/tests/${name}/*/*_test.cpp)
  if(OSM_SANITIZER STREQUAL "thread")
    list(TRANSFORM TEST_NOT_UNDER_TSAN PREPEND ${PROJECT_SOURCE_DIR}/tests/${name}/)
    list(REMOVE_ITEM sources ${TEST_NOT_UNDER_TSAN})
  endif()
  if(NOT sources OR NOT OSM_UNIT_TESTS)
    return()
  endif()
  if(TEST_COST)
    list(PREPEND TEST_COST COST)
  endif()
  osm_test_sources(compiled ${sources})
  add_executable(${name}_test ${compiled})
  osm_doctest_program(${name}_test)
  target_link_libraries(${name}_test PRIVATE
    $<TARGET_NAME_IF_EXISTS:osm::rooms::${name}> ${TEST_LINK})
  osm_test(NAME unit.${name} TIER fast KIND unit SANITIZED PROCESSORS 2 TIMEOUT 900 ${TEST_COST} COMMAND ${name}_test)
endfunction()
