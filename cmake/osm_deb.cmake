# Debian packages, with CPack: `tools/package` configures with OSM_DEB and calls it.
#
# Each package is a component of cmake/osm_install.cmake, with files that only packages have: units,
# manual pages and the scripts of deploy/debian.
if(NOT OSM_SHARED OR NOT OSM_BUILD_DAEMONS)
  message(FATAL_ERROR "OSM_DEB needs -DOSM_SHARED=ON and OSM_BUILD_DAEMONS: tools/package sets both.")
endif()
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  message(FATAL_ERROR "OSM_DEB needs -DCMAKE_INSTALL_PREFIX=/usr, and not ${CMAKE_INSTALL_PREFIX}.")
endif()

set(deploy ${PROJECT_SOURCE_DIR}/deploy)
set(runtime_package libosm${OSM_ABI_VERSION})
set(osm_package_runtime ${runtime_package})
set(osm_package_development libosm-dev)
set(osm_package_controller osm-controller)
set(osm_package_injector osm-injector)
set(osm_package_command osm)

# The release of Debian that the packages fit, as /etc/os-release has it.
file(STRINGS /etc/os-release release REGEX "^(ID|VERSION_ID)=")
string(REGEX REPLACE "[^0-9]" "" release "${release}")
set(version ${PROJECT_VERSION}-1~deb${release})

# Manual pages, from what the programs print for --help.
find_program(OSM_HELP2MAN help2man REQUIRED)
set(manuals ${PROJECT_BINARY_DIR}/man)
set(pages ${manuals}/osm.1 ${manuals}/osm-controller.8 ${manuals}/osm-injector.8)
add_custom_command(OUTPUT ${pages}
  COMMAND ${OSM_PYTHON} ${PROJECT_SOURCE_DIR}/docs/reference/man_pages.py
    ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${manuals}
  DEPENDS osm osm-controller osm-injector ${PROJECT_SOURCE_DIR}/docs/reference/man_pages.py
  VERBATIM)
set(completion ${PROJECT_BINARY_DIR}/completion/osm)
add_custom_command(OUTPUT ${completion}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/completion
  COMMAND osm completion bash > ${completion}
  DEPENDS osm VERBATIM)
add_custom_target(osm_deb_files ALL DEPENDS ${pages} ${completion})

function(osm_install_page file section component)
  install(CODE "file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/man${section}\")
    execute_process(COMMAND gzip -9nc ${file}.${section} COMMAND_ERROR_IS_FATAL ANY
      OUTPUT_FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/man${section}/${component}.${section}.gz\")"
    COMPONENT ${ARGN})
endfunction()
osm_install_page(${manuals}/osm 1 osm command)
osm_install_page(${manuals}/osm-controller 8 osm-controller controller)
osm_install_page(${manuals}/osm-injector 8 osm-injector injector)

set(units lib/systemd/system)
install(FILES ${deploy}/systemd/osm-controller.service DESTINATION ${units} COMPONENT controller)
install(FILES ${deploy}/systemd/osm-intercept@.service ${deploy}/systemd/osm-envoy@.service
  ${deploy}/systemd/osm-renew@.service ${deploy}/systemd/osm-renew@.timer
  DESTINATION ${units} COMPONENT command)
install(FILES ${deploy}/systemd/controller.env DESTINATION /etc/osm COMPONENT controller)
install(DIRECTORY DESTINATION /etc/osm/mesh COMPONENT controller)
install(FILES ${completion} DESTINATION share/bash-completion/completions COMPONENT command)

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime development controller injector command)
set(CPACK_SET_DESTDIR ON)  # for what lies in /etc
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_NAME osm)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_VERSION ${version})
set(CPACK_PACKAGE_CONTACT "libosm <libosm@localhost>")
if(NOT "$ENV{DEBEMAIL}" STREQUAL "")  # as Debian's own tools take it
  set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR} ${OSM_XDS_BUILD_DIR})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# osm_deb(component SECTION net SUMMARY line TEXT lines [DEPENDS ...] [SCRIPTS ...]): one package.
# SCRIPTS are files of deploy/debian that dpkg reads, each named <package>.<script>; of the shared
# libraries just libosm.<script>.
macro(osm_deb component)
  cmake_parse_arguments(DEB "" "SECTION;SUMMARY;TEXT;DEPENDS;RECOMMENDS;PROVIDES" "SCRIPTS" ${ARGN})
  set(package ${osm_package_${component}})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${DEB_SECTION})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${DEB_SUMMARY}\n${DEB_TEXT}")
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${DEB_SUMMARY}\n${DEB_TEXT}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${DEB_DEPENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "${DEB_RECOMMENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_PROVIDES "${DEB_PROVIDES}")
  set(extra "")
  foreach(script IN LISTS DEB_SCRIPTS)
    string(REGEX REPLACE "^libosm[0-9.]+$" "libosm" owner ${package})
    configure_file(${deploy}/debian/${owner}.${script}
      ${PROJECT_BINARY_DIR}/debian/${component}/${script} COPYONLY)
    list(APPEND extra ${PROJECT_BINARY_DIR}/debian/${component}/${script})
  endforeach()
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${extra}")
  install(FILES ${deploy}/debian/copyright DESTINATION share/doc/${package} COMPONENT ${component})
  file(WRITE ${PROJECT_BINARY_DIR}/debian/${component}/changelog
    "osm (${version}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  install(CODE "execute_process(COMMAND gzip -9nc ${PROJECT_BINARY_DIR}/debian/${component}/changelog
      COMMAND_ERROR_IS_FATAL ANY
      OUTPUT_FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/${package}/changelog.Debian.gz\")"
    COMPONENT ${component})
  install(CODE "execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md COMMAND_ERROR_IS_FATAL ANY
      OUTPUT_FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/${package}/changelog.gz\")"
    COMPONENT ${component})
endmacro()

execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 --format=%cD OUTPUT_VARIABLE date
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT date)
  set(date "Thu, 01 Jan 1970 00:00:00 +0000")
endif()
set(same "${runtime_package} (= ${version})")
# Only programs that share an io_context with libosm, or read a JSON document, need Boost.
string(REGEX MATCH "^[0-9]+[.][0-9]+" boost "${Boost_VERSION}")
osm_deb(runtime SECTION libs PROVIDES libosm SCRIPTS triggers
  SUMMARY "service-mesh control plane, shared libraries"
  TEXT "libosm configures Envoy proxies by SMI policies. Programs that embed it\nneed this package.")
osm_deb(development SECTION libdevel DEPENDS "${same}, libprotobuf-dev" RECOMMENDS "libboost${boost}-dev"
  SUMMARY "service-mesh control plane, headers"
  TEXT "Headers, CMake package and pkg-config files of libosm.")
osm_deb(controller SECTION net DEPENDS "${same}, adduser" RECOMMENDS "osm"
  SCRIPTS conffiles postinst prerm postrm
  SUMMARY "control plane of a service mesh"
  TEXT "osm-controller configures the Envoy proxies of a mesh from a directory\nof policies, or from a Kubernetes cluster. It has a certificate authority.")
osm_deb(injector SECTION net DEPENDS "${same}"
  SUMMARY "webhook that gives pods of a service mesh their sidecars"
  TEXT "osm-injector serves the API server of a Kubernetes cluster.")
osm_deb(command SECTION net DEPENDS "${same}" RECOMMENDS "iptables" SCRIPTS postinst prerm postrm
  SUMMARY "command of a service mesh, and units of its machines"
  TEXT "osm inspects and manages a mesh, adds machines to it and renews their\ncertificates.")
if(NOT OSM_ENVOY_API_TARGET)  # is copied, and CPack strips what is linked here only
  install(CODE "execute_process(COMMAND strip --strip-unneeded
      \$ENV{DESTDIR}/usr/${CMAKE_INSTALL_LIBDIR}/${osm_envoy_api_file}.${PROJECT_VERSION}
      COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT runtime)
endif()
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
include(CPack)
