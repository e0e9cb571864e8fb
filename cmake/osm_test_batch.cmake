# Writes one source that has several tests in it, for osm_test.cmake:
#   cmake -DBATCH=FILE -DSOURCES=A_test.cpp,B_test.cpp -P osm_test_batch.cmake
# Each test is in a namespace of its own, so that two may call different helpers by one name. All
# headers come before, outside: their guards keep them out of those namespaces.
string(REPLACE "," ";" sources "${SOURCES}")
set(headers)
set(tests)
foreach(source ${sources})
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${source} NAME_WE)
  file(STRINGS ${source} includes REGEX "^#include ")
  foreach(include ${includes})
    string(REGEX REPLACE "^.*\"(.*)\".*$" "${folder}/\\1" beside "${include}")
    if(EXISTS ${beside})  # found from its own folder, and not from the batch's
      list(APPEND headers "#include \"${beside}\"")
    else()
      list(APPEND headers "${include}")
    endif()
  endforeach()
  string(APPEND tests "namespace batch_${name} {\n#include \"${source}\"\n}\n")
endforeach()
list(REMOVE_DUPLICATES headers)
list(JOIN headers "\n" headers)
file(WRITE ${BATCH} "${headers}\n\n${tests}")
