# Everything libosm is built with, from Debian's packages (tools/setup installs them). A host that
# made a target already, its own fmt::fmt say, is taken at its word.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # a host links what we found
macro(osm_find_package target)  # what packages say of themselves is read later: Boost_VERSION
  if(NOT TARGET ${target})
    find_package(${ARGN} REQUIRED)
  endif()
endmacro()
osm_find_package(OpenSSL::SSL OpenSSL 3)
osm_find_package(fmt::fmt fmt 9)
osm_find_package(gRPC::grpc++ gRPC 1.51)  # brings re2::re2, which spec checks regular expressions with
osm_find_package(c-ares::cares c-ares 1.18)
osm_find_package(protobuf::libprotobuf Protobuf 3.21)
osm_find_package(yaml-cpp yaml-cpp 0.7)
osm_find_package(Threads::Threads Threads)
osm_find_package(Boost::headers Boost 1.81)
if(OSM_SHARED)
  get_target_property(type gRPC::grpc++ TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    message(FATAL_ERROR "libosm is shared only over a shared gRPC: a static one would exist once in "
      "libosm.so and once in every program that uses gRPC itself. Set OSM_SHARED=OFF.")
  endif()
endif()

# What ships is hardened, unless a sanitizer does more: smashed stacks, overrun buffers and jumped
# guard pages end the program, and no table of addresses can be written once it runs.
# tests/daemons/elf_test.py reads it back.
add_library(osm_hardening INTERFACE)
if(NOT "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_DEBUG}" MATCHES "fsanitize")
  target_compile_options(osm_hardening INTERFACE -fstack-protector-strong -fstack-clash-protection)
  if(NOT CMAKE_CXX_FLAGS MATCHES "FORTIFY_SOURCE")  # some distributions say it themselves
    target_compile_options(osm_hardening INTERFACE
      $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  endif()
  target_link_options(osm_hardening INTERFACE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()

# Boost.JSON, Asio and Beast are header-only here; each is compiled once.
add_library(osm_boost_json STATIC ${PROJECT_SOURCE_DIR}/cmake/boost/json.cpp)
target_link_libraries(osm_boost_json PUBLIC Boost::headers PRIVATE osm_hardening)
add_library(osm_boost_asio STATIC ${PROJECT_SOURCE_DIR}/cmake/boost/asio.cpp)
target_compile_definitions(osm_boost_asio PUBLIC
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(osm_boost_asio PUBLIC Boost::headers OpenSSL::SSL Threads::Threads
  PRIVATE osm_hardening)
# ThreadSanitizer knows no fences; Asio's handlers are ordered by its mutexes without them.
if(CMAKE_CXX_FLAGS_DEBUG MATCHES "fsanitize=thread")
  target_compile_definitions(osm_boost_asio PUBLIC BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()

# Debian's doctest has no CMake package.
if(OSM_BUILD_TESTS)
  find_path(OSM_DOCTEST_INCLUDE doctest/doctest.h REQUIRED)
  add_library(osm_doctest INTERFACE)
  add_library(doctest::doctest ALIAS osm_doctest)
  target_include_directories(osm_doctest SYSTEM INTERFACE ${OSM_DOCTEST_INCLUDE})
endif()

# Warnings are errors in our own code. In another project the compiler may be one we never met: there
# they stay warnings.
option(OSM_WARNINGS_ARE_ERRORS "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
add_library(osm_warnings INTERFACE)
target_compile_options(osm_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow)
if(OSM_WARNINGS_ARE_ERRORS)
  target_compile_options(osm_warnings INTERFACE -Werror)
endif()
