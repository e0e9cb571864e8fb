# osm::envoy_api: the generated Envoy API. Built once, in build/xds, and shared by every preset.
#
# A library of its own, because a process can register a .proto file only once: a program with its
# own build of the Envoy API gives it to libosm instead (docs/linking.md):
#
#   OSM_ENVOY_API_TARGET   a target with the generated headers and code, instead of ours
#   OSM_ENVOY_API_PACKAGE  the package to find it in, unless the target is there already
set(OSM_TOOLS_DIR ${PROJECT_SOURCE_DIR}/build/tools CACHE PATH "Where tools/setup put what it fetched")
set(OSM_ENVOY ${OSM_TOOLS_DIR}/envoy/envoy/_bin/envoy CACHE FILEPATH "The Envoy that tests run")
set(OSM_OLDER_ENVOYS 1.39 1.38)  # those beside it that the nightly tests run (tools/setup --envoys)
set(OSM_ENVOY_API_TARGET "" CACHE STRING "The host's own build of the Envoy API")
set(OSM_ENVOY_API_PACKAGE "" CACHE STRING "The CMake package that has OSM_ENVOY_API_TARGET")

# Imported, so that what is installed names it osm::envoy_api and nothing more.
if(OSM_ENVOY_API_TARGET)
  if(NOT TARGET ${OSM_ENVOY_API_TARGET} AND OSM_ENVOY_API_PACKAGE)
    find_package(${OSM_ENVOY_API_PACKAGE} REQUIRED)
  endif()
  if(NOT TARGET ${OSM_ENVOY_API_TARGET})
    message(FATAL_ERROR "OSM_ENVOY_API_TARGET=${OSM_ENVOY_API_TARGET} is no target: make it before "
      "libosm is added, or name the package that has it in OSM_ENVOY_API_PACKAGE.")
  endif()
  add_library(osm::envoy_api INTERFACE IMPORTED GLOBAL)
  target_link_libraries(osm::envoy_api INTERFACE ${OSM_ENVOY_API_TARGET})
  return()
endif()

set(xds_build_dir ${PROJECT_BINARY_DIR}/xds)
if(PROJECT_IS_TOP_LEVEL)
  set(xds_build_dir ${PROJECT_SOURCE_DIR}/build/xds)
  if(CMAKE_CROSSCOMPILING)
    set(xds_build_dir ${PROJECT_SOURCE_DIR}/build/xds-${CMAKE_SYSTEM_PROCESSOR})
  endif()
endif()
set(OSM_XDS_BUILD_DIR ${xds_build_dir} CACHE PATH "Build directory of the Envoy API")
set(xds_settings -DOSM_XDS_WHEEL=${OSM_TOOLS_DIR}/xds-protos -DOSM_VERSION=${PROJECT_VERSION})
if(CMAKE_TOOLCHAIN_FILE)
  list(APPEND xds_settings -DCMAKE_TOOLCHAIN_FILE=${CMAKE_TOOLCHAIN_FILE})
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -G Ninja -S ${PROJECT_SOURCE_DIR}/cmake/xds -B ${OSM_XDS_BUILD_DIR}
          ${xds_settings} -DCMAKE_BUILD_TYPE=None "-DCMAKE_CXX_FLAGS=-O1 -g0 -fpch-preprocess -fstack-protector-strong"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

set(osm_envoy_api_file libosm_envoy_api.a)
set(osm_envoy_api_type STATIC)
if(OSM_SHARED)
  set(osm_envoy_api_file libosm_envoy_api.so)
  set(osm_envoy_api_type SHARED)
endif()
add_custom_target(osm_envoy_api_build
  COMMAND ${CMAKE_COMMAND} --build ${OSM_XDS_BUILD_DIR} --target ${osm_envoy_api_file}
  BYPRODUCTS ${OSM_XDS_BUILD_DIR}/${osm_envoy_api_file}
  COMMENT "Envoy API" USES_TERMINAL)
add_library(osm::envoy_api ${osm_envoy_api_type} IMPORTED GLOBAL)
set_target_properties(osm::envoy_api PROPERTIES
  IMPORTED_LOCATION ${OSM_XDS_BUILD_DIR}/${osm_envoy_api_file})
target_include_directories(osm::envoy_api SYSTEM INTERFACE ${OSM_XDS_BUILD_DIR}/gen)
target_link_libraries(osm::envoy_api INTERFACE protobuf::libprotobuf)
add_dependencies(osm::envoy_api osm_envoy_api_build)

# The Envoy API and Debian's protobuf are not instrumented. Under ThreadSanitizer protobuf's headers
# would give map fields two members that the code in there does not know of (map_field.h).
if(OSM_SANITIZER STREQUAL "thread")
  target_compile_options(osm::envoy_api INTERFACE -U__SANITIZE_THREAD__)
  # Said once more for libstdc++, whose shared_ptr then counts in a way the tool understands.
  target_compile_definitions(osm::envoy_api INTERFACE _GLIBCXX_TSAN=1)
endif()
# Under ThreadSanitizer protobuf's headers have another layout than the library that was built
# without it.
if(CMAKE_CXX_FLAGS_DEBUG MATCHES "fsanitize=thread")
  target_compile_options(osm::envoy_api INTERFACE
    "SHELL:-include ${PROJECT_SOURCE_DIR}/cmake/xds/plain_layout.hpp")
endif()
