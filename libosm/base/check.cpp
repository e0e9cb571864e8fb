#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace osm {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "libosm: invariant broken: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace osm
