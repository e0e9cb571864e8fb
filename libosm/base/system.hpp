// The real clock and a seeded generator: what daemons inject.
#pragma once

#include <mutex>
#include <random>

#include "osm/clock.hpp"

namespace osm {

class SystemClock final : public Clock {
 public:
  WallTime wall_now() const override { return std::chrono::system_clock::now(); }
  SteadyTime steady_now() const override { return std::chrono::steady_clock::now(); }
};

class RandomRng final : public Rng {
 public:
  // Seeded from the system when `seed` is absent.
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

}  // namespace osm
