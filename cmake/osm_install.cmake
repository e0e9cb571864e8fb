# cmake --install: libraries, headers, the CMake package and pkg-config files. Nothing installed
# knows where it was built or installed, so that a prefix can be moved.
#
# A static and a shared build may be installed into one prefix, one after the other: what differs
# has the flavour in its name.
#
# Components: runtime (shared libraries), development, controller, injector, cni, command and
# materials. cmake/osm_deb.cmake makes packages of them.
include(CMakePackageConfigHelpers)
include(CheckCXXSourceCompiles)
set(flavour static)
if(OSM_SHARED)
  set(flavour shared)
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/osm)
set(staging ${PROJECT_BINARY_DIR}/package)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/osm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/charts/osm/crds DESTINATION ${CMAKE_INSTALL_DATADIR}/osm
  COMPONENT command FILES_MATCHING PATTERN "*.yaml")
# For authors of providers and of machines' agents in other languages.
foreach(protos plugins/remote/proto ads/proto)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/libosm/${protos} DESTINATION ${CMAKE_INSTALL_DATADIR}/osm
    COMPONENT development FILES_MATCHING PATTERN "*.proto")
endforeach()
foreach(target IN LISTS osm_products)
  get_target_property(name ${target} EXPORT_NAME)
  install(TARGETS ${target} EXPORT osm-${name}
    LIBRARY COMPONENT runtime NAMELINK_COMPONENT development ARCHIVE COMPONENT development)
  install(EXPORT osm-${name} NAMESPACE osm:: FILE osm-${name}-${flavour}.cmake
    DESTINATION ${package_dir} COMPONENT development)
endforeach()
if(OSM_BUILD_DAEMONS)
  foreach(program controller injector cni)
    install(TARGETS osm-${program} COMPONENT ${program})
  endforeach()
  install(TARGETS osm COMPONENT command)
  # Static programs search no folder: an entry would leave room for others, which are empty, and an
  # empty one is the current directory.
  if(OSM_SHARED AND NOT OSM_DEB)  # whose libraries are where the loader looks
    set_target_properties(osm-controller osm-injector osm PROPERTIES
      INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endif()
endif()

if(NOT OSM_ENVOY_API_TARGET)
  set(file ${OSM_XDS_BUILD_DIR}/${osm_envoy_api_file})
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  if(OSM_SHARED)
    install(FILES ${file}.${OSM_ABI_VERSION} ${file}.${PROJECT_VERSION}
      DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
  endif()
  set(OSM_ENVOY_API_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}/osm-envoy-api)
  install(DIRECTORY ${OSM_XDS_BUILD_DIR}/gen/ DESTINATION ${OSM_ENVOY_API_INCLUDEDIR}
    COMPONENT development FILES_MATCHING PATTERN "*.pb.h")
endif()

# The CMake package.
check_cxx_source_compiles("
  #include <string>
  #if !_GLIBCXX_USE_CXX11_ABI
  #error
  #endif
  int main() {}" OSM_CXX11_ABI)
set(OSM_USES_CXX11_ABI 0)
if(OSM_CXX11_ABI)
  set(OSM_USES_CXX11_ABI 1)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/osm-config.cmake.in
  ${staging}/osm-config.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR OSM_ENVOY_API_INCLUDEDIR)
# While the major version is 0, a minor version may break what was (docs/versioning.md).
write_basic_package_version_file(${staging}/osm-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${staging}/osm-config.cmake ${staging}/osm-config-version.cmake
  DESTINATION ${package_dir} COMPONENT development)

# pkg-config. What a shared library needs by itself is private: --static asks for it.
function(osm_pkg_config name)
  cmake_parse_arguments(PC "" "DESCRIPTION;LIBRARY;INCLUDEDIR" "REQUIRES;PRIVATE;LIBS_PRIVATE" ${ARGN})
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
    BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE PC_UP)
  list(JOIN PC_REQUIRES ", " PC_REQUIRES)
  if(OSM_DEB)  # has no static library, and pkg-config wants to see even what is private
    set(PC_PRIVATE "")
    set(PC_LIBS_PRIVATE "")
  endif()
  list(JOIN PC_PRIVATE ", " PC_PRIVATE)
  list(JOIN PC_LIBS_PRIVATE " " PC_LIBS_PRIVATE)
  set(PC_NAME ${name})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/osm.pc.in ${staging}/${name}.pc @ONLY)
  install(FILES ${staging}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)
endfunction()

set(envoy_api_module "")
if(NOT OSM_ENVOY_API_TARGET)
  set(envoy_api_module osm-envoy-api)
  osm_pkg_config(osm-envoy-api LIBRARY osm_envoy_api INCLUDEDIR ${OSM_ENVOY_API_INCLUDEDIR}
    DESCRIPTION "The generated Envoy API that libosm is built with" REQUIRES protobuf)
endif()
osm_pkg_config(osm LIBRARY osm INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "${PROJECT_DESCRIPTION}"
  PRIVATE ${envoy_api_module} grpc++ protobuf re2 yaml-cpp fmt libcrypto LIBS_PRIVATE -pthread)
osm_pkg_config(osm-net LIBRARY osm_net INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "HTTP, executors, logs and metrics for programs around libosm"
  REQUIRES osm PRIVATE libssl fmt LIBS_PRIVATE -pthread)
osm_pkg_config(osm-vm LIBRARY osm_vm INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's endpoints provider for plain machines" REQUIRES osm PRIVATE fmt)
osm_pkg_config(osm-dns LIBRARY osm_dns INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's endpoints provider for machines behind DNS names" REQUIRES osm PRIVATE libcares)
osm_pkg_config(osm-azure LIBRARY osm_azure INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's endpoints provider for machines of Azure" REQUIRES osm-net PRIVATE yaml-cpp libcrypto)
osm_pkg_config(osm-kubernetes LIBRARY osm_kubernetes INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm on Kubernetes: the API server's objects, pods as endpoints"
  REQUIRES osm-net PRIVATE yaml-cpp fmt libcrypto)
osm_pkg_config(osm-install LIBRARY osm_install INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's installation on Kubernetes: the chart, its objects in a cluster, and their check"
  REQUIRES osm-kubernetes PRIVATE re2 fmt libcrypto)
osm_pkg_config(osm-etcd LIBRARY osm_etcd INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's certificate authority in etcd" REQUIRES osm-net PRIVATE libcrypto)
osm_pkg_config(osm-vault LIBRARY osm_vault INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's certificates from Vault" REQUIRES osm-net PRIVATE libcrypto)
osm_pkg_config(osm-cert-manager LIBRARY osm_cert_manager INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "cert-manager as libosm's certificate authority" REQUIRES osm-kubernetes PRIVATE libcrypto)
osm_pkg_config(osm-remote LIBRARY osm_remote INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's endpoints providers in processes of their own, over gRPC"
  REQUIRES osm-net PRIVATE grpc++ protobuf yaml-cpp fmt libcrypto)
osm_pkg_config(osm-admin LIBRARY osm_admin INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's admin API, which the osm command asks" REQUIRES osm-net)
osm_pkg_config(osm-host LIBRARY osm_host INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's parts of a program that runs a mesh" REQUIRES osm-admin PRIVATE fmt)
osm_pkg_config(osm-machine LIBRARY osm_machine INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's agent of a machine: it joins, renews its certificate and leaves"
  REQUIRES osm-net PRIVATE grpc++ protobuf fmt libcrypto)
osm_pkg_config(osm-c LIBRARY osm_c INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's control plane for hosts in C" PRIVATE osm-admin osm-vm LIBS_PRIVATE -lstdc++ -lm)
osm_pkg_config(osm-testing LIBRARY osm_testing INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}
  DESCRIPTION "libosm's fakes and its conformance suite"
  REQUIRES osm PRIVATE ${envoy_api_module} grpc++ protobuf fmt LIBS_PRIVATE -pthread)
