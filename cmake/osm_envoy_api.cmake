# osm::envoy_api: the generated Envoy API. Built once, in build/xds, and shared by every preset.
set(OSM_TOOLS_DIR ${PROJECT_SOURCE_DIR}/build/tools CACHE PATH "Where tools/setup put what it fetched")
set(OSM_ENVOY ${OSM_TOOLS_DIR}/envoy/envoy/_bin/envoy CACHE FILEPATH "The Envoy that tests run")
set(OSM_XDS_BUILD_DIR ${PROJECT_SOURCE_DIR}/build/xds CACHE PATH "Build directory of the Envoy API")

execute_process(
  COMMAND ${CMAKE_COMMAND} -G Ninja -S ${PROJECT_SOURCE_DIR}/cmake/xds -B ${OSM_XDS_BUILD_DIR}
          -DOSM_XDS_WHEEL=${OSM_TOOLS_DIR}/xds-protos -DCMAKE_BUILD_TYPE=None
          "-DCMAKE_CXX_FLAGS=-O1 -g0 -fpch-preprocess"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(osm_envoy_api_build
  COMMAND ${CMAKE_COMMAND} --build ${OSM_XDS_BUILD_DIR}
  BYPRODUCTS ${OSM_XDS_BUILD_DIR}/libosm_envoy_api.a
  COMMENT "Envoy API" USES_TERMINAL)

find_package(Protobuf 3.21 REQUIRED)
add_library(osm_envoy_api STATIC IMPORTED GLOBAL)
add_library(osm::envoy_api ALIAS osm_envoy_api)
set_target_properties(osm_envoy_api PROPERTIES
  IMPORTED_LOCATION ${OSM_XDS_BUILD_DIR}/libosm_envoy_api.a)
target_include_directories(osm_envoy_api SYSTEM INTERFACE ${OSM_XDS_BUILD_DIR}/gen)
target_link_libraries(osm_envoy_api INTERFACE protobuf::libprotobuf)
# The Envoy API and Debian's protobuf are not instrumented. Under ThreadSanitizer protobuf's headers
# would give map fields two members that the code in there does not know of (map_field.h).
if(OSM_TEST_PREFIX STREQUAL "tsan.")
  target_compile_options(osm_envoy_api INTERFACE -U__SANITIZE_THREAD__)
  # Said once more for libstdc++, whose shared_ptr then counts in a way the tool understands.
  target_compile_definitions(osm_envoy_api INTERFACE _GLIBCXX_TSAN=1)
endif()
add_dependencies(osm_envoy_api osm_envoy_api_build)
# What protobuf's headers make of ThreadSanitizer does not fit what was built without it.
if(CMAKE_CXX_FLAGS_DEBUG MATCHES "fsanitize=thread")
  target_compile_options(osm_envoy_api INTERFACE
    "SHELL:-include ${PROJECT_SOURCE_DIR}/cmake/xds/plain_layout.hpp")
endif()
