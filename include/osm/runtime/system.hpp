// The real clock and a seeded generator, for daemons.
#pragma once

#include <mutex>
#include <random>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// The system's clock.
class OSM_API SystemClock final : public Clock {
 public:
  WallTime wall_now() const override { return std::chrono::system_clock::now(); }
  SteadyTime steady_now() const override { return std::chrono::steady_clock::now(); }
};

// A generator for everything but keys. Thread: any, concurrently.
class OSM_API RandomRng final : public Rng {
 public:
  // Seeded from the system, or with `seed` for repeatable sequences.
  RandomRng() : engine_(std::random_device{}()) {}
  explicit RandomRng(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t next() override {
    std::lock_guard lock(mutex_);
    return engine_();
  }

 private:
  std::mutex mutex_;
  std::mt19937_64 engine_;
};

}  // namespace osm::inline v1
