// Compares the minutes of a soak after its warm-up with its last ones.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace osm::bench {

// At the end of a minute, when the mesh is as it began and every proxy holds it.
struct SoakSample {
  double resident_bytes = 0;
  double allocated_bytes = 0;  // of the heap
  double descriptors = 0;
  double threads = 0;
};

struct SoakBounds {
  double resident_bytes = 2e6;
  double allocated_bytes = 1e6;  // steadier, since a fragmented heap does not count
  double descriptors = 2;
  double threads = 4;  // gRPC starts some of its own only when it is busy
};

// The medians of the first and the last minutes after the warm-up, five each, or a third of them
// where there are fewer than fifteen. Result: a line for each figure that grew by more than its
// bound.
std::vector<std::string> growth(const std::vector<SoakSample>& minutes, std::size_t warm_up,
                                const SoakBounds& bounds);

}  // namespace osm::bench
