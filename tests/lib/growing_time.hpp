// Times that a test must see expire, but not before the program has got somewhere.
#pragma once

#include <chrono>

namespace osm::inline v1::testing {

// Tries `first`, and twice the time after each try in which the program did not get that far. An
// idle machine needs one try, and a busy one is waited for. `attempt` takes the time. Result: true
// if one try was; false after a try with 10 s or more.
template <typename Attempt>
bool with_growing_time(std::chrono::milliseconds first, const Attempt& attempt) {
  for (auto time = first;; time *= 2) {
    if (attempt(time)) return true;
    if (time >= std::chrono::seconds(10)) return false;
  }
}

}  // namespace osm::inline v1::testing
