# The libraries that hosts link: osm::osm, osm::net, osm::vm, osm::testing (and osm::envoy_api, see
# cmake/osm_envoy_api.cmake). The same targets exist here, after add_subdirectory and after
# find_package. Each is composed of the objects of its rooms, compiled once.
#
#   osm_product(vm ROOMS vm LINK osm::osm [PRIVATE libraries...] [HIDDEN libraries...] [EXPORTS file])
#
# LINK is part of the product's interface, PRIVATE is not. HIDDEN names static libraries whose objects
# go into the product where nobody sees them. EXPORTS is the linker's map of what a shared one shows.
set(OSM_ABI_VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(osm_products "")

function(osm_product name)
  cmake_parse_arguments(PRODUCT "" "EXPORTS" "ROOMS;LINK;PRIVATE;HIDDEN" ${ARGN})
  set(target libosm_${name})
  set(file osm_${name})
  if(name STREQUAL "osm")
    set(target libosm)
    set(file osm)
  endif()
  list(TRANSFORM PRODUCT_ROOMS PREPEND osm_room_)
  set(parts ${PRODUCT_ROOMS} ${PRODUCT_HIDDEN})
  list(TRANSFORM parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)

  set(type STATIC)
  if(OSM_SHARED)
    set(type SHARED)
  endif()
  add_library(${target} ${type} ${objects})
  add_library(osm::${name} ALIAS ${target})
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} PUBLIC ${PRODUCT_LINK} PRIVATE ${PRODUCT_PRIVATE})
  set_target_properties(${target} PROPERTIES
    LINKER_LANGUAGE CXX OUTPUT_NAME ${file} EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${OSM_ABI_VERSION} INSTALL_RPATH "$<$<NOT:$<BOOL:${OSM_DEB}>>:$ORIGIN>")
  if(OSM_SHARED)
    set(exports ${PROJECT_SOURCE_DIR}/cmake/libosm.map)
    if(PRODUCT_EXPORTS)
      set(exports ${PROJECT_SOURCE_DIR}/cmake/${PRODUCT_EXPORTS})
    endif()
    target_link_options(${target} PRIVATE -Wl,--version-script=${exports}
      $<TARGET_PROPERTY:osm_hardening,INTERFACE_LINK_OPTIONS>)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${exports})
    if(NOT "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_DEBUG}" MATCHES "fsanitize")
      # A symbol that is missing here is hidden in the library that has it: mark its definition with OSM_API.
      target_link_options(${target} PRIVATE -Wl,-z,defs)
    endif()
  endif()
  set(osm_products ${osm_products} ${target} PARENT_SCOPE)
endfunction()

include(GNUInstallDirs)
# A static libosm_vm finds Boost.JSON in libosm; a shared one has its own, since libosm shows none.
set(json_of_vm "")
if(OSM_SHARED)
  set(json_of_vm osm_boost_json)
endif()
osm_product(osm
  ROOMS base model machines spec endpoint certificate explain catalog translate ads
        root_rotation nack_provenance inject migrate backend control_plane
  HIDDEN osm_boost_json
  PRIVATE osm::envoy_api gRPC::grpc++ protobuf::libprotobuf re2::re2 yaml-cpp fmt::fmt
          OpenSSL::Crypto Threads::Threads)
osm_product(net ROOMS net HIDDEN osm_boost_asio ${json_of_vm} LINK osm::osm Threads::Threads
  PRIVATE OpenSSL::SSL fmt::fmt)
osm_product(vm ROOMS vm HIDDEN ${json_of_vm} LINK osm::osm PRIVATE fmt::fmt)
osm_product(dns ROOMS dns LINK osm::osm PRIVATE c-ares::cares)
osm_product(azure ROOMS azure HIDDEN ${json_of_vm} LINK osm::net PRIVATE yaml-cpp OpenSSL::Crypto)
osm_product(kubernetes ROOMS kubernetes HIDDEN ${json_of_vm} LINK osm::net PRIVATE yaml-cpp fmt::fmt OpenSSL::Crypto)
osm_product(install ROOMS install HIDDEN ${json_of_vm} LINK osm::kubernetes PRIVATE re2::re2 fmt::fmt OpenSSL::Crypto)
osm_product(etcd ROOMS etcd HIDDEN ${json_of_vm} LINK osm::net PRIVATE OpenSSL::Crypto)
osm_product(vault ROOMS vault HIDDEN ${json_of_vm} LINK osm::net PRIVATE OpenSSL::Crypto)
osm_product(cert_manager ROOMS cert_manager HIDDEN ${json_of_vm} LINK osm::kubernetes PRIVATE OpenSSL::Crypto)
osm_product(remote ROOMS remote LINK osm::net
  PRIVATE gRPC::grpc++ protobuf::libprotobuf yaml-cpp fmt::fmt OpenSSL::Crypto)
osm_product(admin ROOMS admin HIDDEN ${json_of_vm} LINK osm::net)
osm_product(host ROOMS host HIDDEN ${json_of_vm} LINK osm::admin PRIVATE fmt::fmt)
osm_product(machine ROOMS machine HIDDEN ${json_of_vm} LINK osm::net
  PRIVATE gRPC::grpc++ protobuf::libprotobuf fmt::fmt OpenSSL::Crypto)
osm_product(testing ROOMS testing HIDDEN ${json_of_vm} LINK osm::osm Threads::Threads
  PRIVATE osm::envoy_api gRPC::grpc++ protobuf::libprotobuf fmt::fmt)
# Hosts in C see no header of the others.
osm_product(c ROOMS c HIDDEN ${json_of_vm} EXPORTS libosm_c.map PRIVATE osm::admin osm::net osm::vm osm::osm)
