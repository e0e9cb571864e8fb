# One ctest entry, in exactly one tier. `tools/tests` lists them, and the entry check.tests checks them.
#
#   osm_test(NAME unit.model TIER fast [KIND unit] COMMAND model_test
#            [TIMEOUT 300] [COST seconds] [PROCESSORS n] [SERIAL] [SANITIZED] [NETWORK] [SLICE models]
#            [NEEDS kubernetes ...] [ENVIRONMENT A=b ...] [BEHAVIOUR "text"])
#
# TIER       fast: tools/test runs it; full: tools/test --full does; nightly: tools/test --slice SLICE.
# KIND       a second label, to choose by with `ctest -L`.
# SANITIZED  belongs to the presets with a sanitizer; release, without OSM_UNIT_TESTS, does not have it.
# NEEDS      programs of tools/programs that it runs; the entries program.* build them before.
# NETWORK    it installs packages; every other entry has a network namespace of its own.
# PROCESSORS slots that it takes of three for each core; default 1. A test that measures time, or
#            starves beside others, takes four of six.
# SERIAL     nothing runs beside it, because it measures time.
# BEHAVIOUR  for tools/tests, if the first comment of the file that runs does not say it. No semicolon.
# COST       seconds on two cores; ctest starts the longest first. TIMEOUT defaults to 300.
#
# In the tsan preset the names begin with `tsan.`, and all are of the nightly tier, whatever TIER says.
find_program(OSM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)  # finds Debian's modules

function(osm_test)
  cmake_parse_arguments(TEST "SERIAL;SANITIZED;NETWORK" "NAME;TIER;KIND;TIMEOUT;COST;PROCESSORS;SLICE;BEHAVIOUR"
    "COMMAND;ENVIRONMENT;PROPERTIES;NEEDS" ${ARGN})
  if(NOT TEST_TIER MATCHES "^(fast|full|nightly)$")
    message(FATAL_ERROR "osm_test(${TEST_NAME}): TIER is fast, full or nightly, not '${TEST_TIER}'")
  endif()
  if(OSM_SANITIZER STREQUAL "thread")
    set(TEST_SLICE sanitizers)
  elseif(TEST_TIER STREQUAL "nightly" AND NOT TEST_SLICE MATCHES "^[a-z0-9]+$")
    message(FATAL_ERROR "osm_test(${TEST_NAME}): a nightly entry has a SLICE of tools/test")
  endif()
  if(TEST_SANITIZED AND NOT OSM_UNIT_TESTS)
    return()
  endif()
  set(name ${TEST_NAME})
  set(labels ${TEST_TIER})
  if(OSM_SANITIZER STREQUAL "thread")
    set(name tsan.${name})
    set(labels nightly)
  endif()
  list(APPEND labels ${TEST_KIND})
  if(TEST_SLICE)
    list(APPEND labels slice.${TEST_SLICE})
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  if(CMAKE_CROSSCOMPILING_EMULATOR)  # emulated programs are several times slower
    math(EXPR TEST_TIMEOUT "${TEST_TIMEOUT} * 5")
  endif()
  list(GET TEST_COMMAND 0 program)
  if(TARGET ${program})
    set_property(TARGET ${program} APPEND PROPERTY OSM_RUN_IN ${TEST_TIER})
    list(REMOVE_AT TEST_COMMAND 0)  # add_test() knows a target only as the first word
    list(PREPEND TEST_COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${program}>)
  endif()
  if(NOT TEST_NETWORK)
    list(PREPEND TEST_COMMAND ${PROJECT_SOURCE_DIR}/tools/testing/alone)
  endif()
  if(TEST_BEHAVIOUR)
    set_property(GLOBAL APPEND_STRING PROPERTY OSM_TEST_BEHAVIOURS "${name}\t${TEST_BEHAVIOUR}\n")
  endif()
  add_test(NAME ${name} COMMAND ${TEST_COMMAND} COMMAND_EXPAND_LISTS)
  if(TEST_NEEDS)
    list(TRANSFORM TEST_NEEDS PREPEND program.)
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED "${TEST_NEEDS}")
  endif()
  set_tests_properties(${name} PROPERTIES
    LABELS "${labels}" TIMEOUT ${TEST_TIMEOUT} ENVIRONMENT "${TEST_ENVIRONMENT}")
  if(TEST_COST)
    set_tests_properties(${name} PROPERTIES COST ${TEST_COST})
  endif()
  if(TEST_PROCESSORS)
    set_tests_properties(${name} PROPERTIES PROCESSORS ${TEST_PROCESSORS})
  endif()
  if(TEST_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# Writes each BEHAVIOUR for tools/tests. Called last.
function(osm_write_behaviours)
  get_property(lines GLOBAL PROPERTY OSM_TEST_BEHAVIOURS)
  file(WRITE ${PROJECT_BINARY_DIR}/test_behaviours.tsv "${lines}")
endfunction()

# A program of doctest; tests/main.cpp is compiled once for all of them. No precompiled headers: gcc
# writes the build's path into them, so that ccache would know no test in another clone.
function(osm_doctest_program program)
  # Assertions quote their path: without the clone's, so that ccache knows the test in another clone.
  target_compile_options(${program} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${program} PRIVATE osm_doctest_main osm_warnings doctest::doctest)
endfunction()

# Sets RESULT to what is compiled for the given tests of one program: themselves or, with OSM_UNITY, all
# in one source, in two from 25 tests on. The headers that they share are most of the work.
function(osm_test_sources result)
  if(NOT OSM_UNITY)
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(script ${PROJECT_SOURCE_DIR}/cmake/osm_test_batch.cmake)
  osm_sort_for_batches(compiled batched ${ARGN})
  list(LENGTH batched each)
  if(each GREATER_EQUAL 25)
    math(EXPR each "(${each} + 1) / 2")
  endif()
  while(batched)
    list(SUBLIST batched 0 ${each} some)
    list(REMOVE_ITEM batched ${some})
    list(GET some 0 first)
    file(RELATIVE_PATH first ${PROJECT_SOURCE_DIR}/tests ${first})
    set(batch ${PROJECT_BINARY_DIR}/test_batches/${first})
    list(JOIN some "," joined)
    file(WRITE ${batch}.sources "${joined}")  # for tools/tests, also before the batch is made
    add_custom_command(OUTPUT ${batch} DEPENDS ${some} ${script} VERBATIM
      COMMENT "Putting tests into one source: ${first}"
      COMMAND ${CMAKE_COMMAND} -DBATCH=${batch} -DSOURCES=${joined} -P ${script})
    list(APPEND compiled ${batch})
  endwhile()
  set(${result} ${compiled} PARENT_SCOPE)
endfunction()

# program.<name>: builds what tools/setup --later left out, with the time that the tests leave.
function(osm_program_entry name)
  cmake_parse_arguments(PROGRAM "" "TIER;COST" "" ${ARGN})
  osm_test(NAME program.${name} BEHAVIOUR "Builds a program in Go that tests run."
    TIER ${PROGRAM_TIER} KIND setup NETWORK TIMEOUT 3600
    COST ${PROGRAM_COST}
    COMMAND ${PROJECT_SOURCE_DIR}/tools/testing/gently ${PROJECT_SOURCE_DIR}/tools/programs/build ${name})
  set_tests_properties(program.${name} PROPERTIES FIXTURES_SETUP program.${name} RESOURCE_LOCK program)
endfunction()

# A test written in Python: SCRIPT and its arguments in place of COMMAND. It imports tests/lib.
function(osm_python_test)
  cmake_parse_arguments(TEST "" "SCRIPT" "ARGUMENTS;ENVIRONMENT" ${ARGN})
  osm_test(${TEST_UNPARSED_ARGUMENTS}
    COMMAND ${OSM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${TEST_SCRIPT} ${TEST_ARGUMENTS}
    ENVIRONMENT PYTHONPATH=${PROJECT_SOURCE_DIR}/tests PYTHONDONTWRITEBYTECODE=1
      ${TEST_ENVIRONMENT})
endfunction()

# tests_fast and tests_full: what tools/test builds in the release preset for each tier. Programs
# that only other tiers run are left out. A test in Python runs the daemons and, in the full tier,
# any program that no entry names; DAEMONS are those of the fast tier.
function(osm_tier_targets)
  cmake_parse_arguments(TIER "" "" "DAEMONS" ${ARGN})
  add_custom_target(tests_fast)
  add_custom_target(tests_full)
  add_dependencies(tests_fast ${TIER_DAEMONS})
  set(folders ${PROJECT_SOURCE_DIR})
  while(folders)
    list(POP_FRONT folders folder)
    get_property(inner DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    list(APPEND folders ${inner})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      get_target_property(unwanted ${target} EXCLUDE_FROM_ALL)
      if(NOT type MATCHES "EXECUTABLE|STATIC_LIBRARY|SHARED_LIBRARY" OR unwanted)
        continue()
      endif()
      get_target_property(tiers ${target} OSM_RUN_IN)
      if(NOT tiers OR "full" IN_LIST tiers OR "fast" IN_LIST tiers)
        add_dependencies(tests_full ${target})
      endif()
      if("fast" IN_LIST tiers)
        add_dependencies(tests_fast ${target})
      endif()
    endforeach()
  endwhile()
endfunction()
