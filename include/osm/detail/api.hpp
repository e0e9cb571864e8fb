// Visibility: libosm.so exports only the declarations that are marked with OSM_API.
#pragma once

#if __cplusplus < 202002L
#error "libosm needs C++20: compile with -std=c++20 or later, or let CMake do it (osm::osm says so)"
#endif

#define OSM_API __attribute__((visibility("default")))
