// A transport in memory.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ads/proxy_stream.hpp"

namespace osm::ads_test {

// Polices the hub: one read and one write at a time, nonces go up by one, nothing after close().
class MemoryStream final : public ads::ProxyStream {
 public:
  struct Closed {
    ads::CloseCode code{};
    std::string text;
    bool cut = false;
  };

  explicit MemoryStream(XdsVariant variant) : ProxyStream(variant) {}

  void read_next() override {
    CHECK_FALSE(closed);
    CHECK_FALSE(reading);
    reading = true;
  }
  void write(const ads::Response& response) override {
    CHECK_FALSE(closed);
    CHECK_FALSE(writing);
    CHECK(response.nonce == std::to_string(++last_nonce_));
    writing = response;
    writes.push_back(response);
  }
  void close(ads::CloseCode code, const std::string& text, bool cut) override {
    CHECK_FALSE(closed);
    closed = Closed{code, text, cut};
  }

  bool reading = false;
  std::optional<ads::Response> writing;
  std::vector<ads::Response> writes;
  std::optional<Closed> closed;

 private:
  std::uint64_t last_nonce_ = 0;
};

}  // namespace osm::ads_test
