// Looks into every block that goes back to the allocator; private_key_test.cpp replaces the global
// operators for that.
#pragma once

#include <doctest/doctest.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

#include "osm/certificate/manager.hpp"

namespace osm::certificate::testing {

// Plain memory: the watched text must not be in a std::string of the test's own.
inline std::array<char, 64> watched_text{};
inline std::atomic<std::size_t> watched_size{0};
inline std::atomic<int> leaks{0};

inline void inspect_freed(void* block) {
  const std::size_t size = watched_size.load();
  if (size == 0 || !block) return;
  if (::memmem(block, ::malloc_usable_size(block), watched_text.data(), size)) ++leaks;
}

// Counts freed blocks that hold `text` while it lives.
class Watch {
 public:
  explicit Watch(std::string_view text) {
    REQUIRE(text.size() <= watched_text.size());
    std::memcpy(watched_text.data(), text.data(), text.size());
    leaks = 0;
    watched_size = text.size();
  }
  ~Watch() { watched_size = 0; }
  int leaked() const { return leaks; }
};

}  // namespace osm::certificate::testing
