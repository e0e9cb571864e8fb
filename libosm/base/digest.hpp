// Content hashes: the first 128 bits of SHA-256.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

struct OSM_API Digest {
  std::array<std::uint8_t, 16> bytes{};

  std::string hex() const;  // 32 lower-case digits
  // The first half as a number.
  std::uint64_t number() const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  friend bool operator==(const Digest&, const Digest&) = default;
  friend std::strong_ordering operator<=>(const Digest&, const Digest&) = default;
};

OSM_API Digest digest_of(std::string_view bytes);

// Hashes a sequence of parts unambiguously: kind and length precede every part.
class DigestBuilder {
 public:
  DigestBuilder& add(std::string_view part);
  DigestBuilder& add(std::uint64_t number);
  DigestBuilder& add(const Digest& digest);
  Digest finish() const { return digest_of(bytes_); }

 private:
  void append(char kind, std::uint64_t number);
  std::string bytes_;  // kind, length and content of every part
};

}  // namespace osm::inline v1

template <>
struct std::hash<osm::Digest> {
  std::size_t operator()(const osm::Digest& digest) const noexcept {
    std::size_t value;
    std::memcpy(&value, digest.bytes.data(), sizeof value);
    return value;
  }
};
