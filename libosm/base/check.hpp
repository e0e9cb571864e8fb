// Our own invariants. OSM_CHECK aborts with text in every build.
#pragma once

namespace osm::inline v1 {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
// For misuse by the host: prints `why` to standard error and aborts.
[[noreturn]] void process_must_end(const char* why);
}

#define OSM_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::osm::check_failed(#condition, __FILE__, __LINE__))
