// The seed of the run (`OSM_TEST_SEED`), generators that start at it, and longer models.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

namespace osm::inline v1::testing {

// Seed of everything random in this process: OSM_TEST_SEED, or drawn once. tests/main.cpp prints
// it, and a test that fails prints the command that repeats it.
inline std::uint64_t seed() {
  static const std::uint64_t drawn = [] {
    const char* text = std::getenv("OSM_TEST_SEED");
    return text ? std::strtoull(text, nullptr, 10) : std::uint64_t{std::random_device{}()};
  }();
  return drawn;
}

// A generator that starts at the seed, so that a test repeats itself whichever tests ran before it.
inline std::mt19937_64 seeded() { return std::mt19937_64(seed()); }

// True for the nightly entries unit.<room>_long (OSM_TEST_LONG=1): models take many more steps.
inline bool long_run() {
  const char* text = std::getenv("OSM_TEST_LONG");
  return text != nullptr && text == std::string_view("1");
}

// Steps of a model: `usual` takes seconds also under a sanitizer and covers every kind of step.
inline int steps(int usual, int lengthy) { return long_run() ? lengthy : usual; }

}  // namespace osm::inline v1::testing
