#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// Exported for the other libraries of this project.
OSM_API void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "libosm: invariant broken: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

OSM_API void process_must_end(const char* why) {
  std::fprintf(stderr, "libosm: %s\n", why);
  std::abort();
}

}  // namespace osm::inline v1
