// A bound on log lines that strangers can cause as often as they like.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "base/rate_limit.hpp"

namespace osm::inline v1 {

// Ten lines at once, then one every ten seconds. Not synchronized.
class LogLimit {
 public:
  explicit LogLimit(const Clock& clock) : rate_(clock, 10, std::chrono::seconds(10)) {}

  // Result: the number of lines left out since the last one; nullopt: leave this one out, too.
  std::optional<std::size_t> admit() {
    if (rate_.take()) return std::exchange(left_out_, 0);
    ++left_out_;
    return std::nullopt;
  }

 private:
  RateLimit rate_;
  std::size_t left_out_ = 0;
};

}  // namespace osm::inline v1
