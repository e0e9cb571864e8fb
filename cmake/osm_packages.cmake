# Everything libosm is built with, from Debian's packages (tools/setup installs them).
find_package(OpenSSL 3 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(gRPC 1.51 REQUIRED)  # brings re2::re2, which spec checks regular expressions with
find_package(yaml-cpp 0.7 REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED)

# Boost.JSON, Asio and Beast are header-only here; each is compiled once.
add_library(osm_boost_json STATIC ${PROJECT_SOURCE_DIR}/cmake/boost/json.cpp)
target_link_libraries(osm_boost_json PUBLIC Boost::headers)
add_library(osm_boost_asio STATIC ${PROJECT_SOURCE_DIR}/cmake/boost/asio.cpp)
target_compile_definitions(osm_boost_asio PUBLIC
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(osm_boost_asio PUBLIC Boost::headers OpenSSL::SSL Threads::Threads)
# ThreadSanitizer knows no fences; Asio's handlers are ordered by its mutexes without them.
if(CMAKE_CXX_FLAGS_DEBUG MATCHES "fsanitize=thread")
  target_compile_definitions(osm_boost_asio PUBLIC BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()

# Debian's doctest has no CMake package.
find_path(OSM_DOCTEST_INCLUDE doctest/doctest.h REQUIRED)
add_library(osm_doctest INTERFACE)
add_library(doctest::doctest ALIAS osm_doctest)
target_include_directories(osm_doctest SYSTEM INTERFACE ${OSM_DOCTEST_INCLUDE})

# Warnings are errors in our own code, with the sanitizers of the preset.
add_library(osm_warnings INTERFACE)
target_compile_options(osm_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Werror)
