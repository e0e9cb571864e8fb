// Compressed bodies are decompressed in any pieces, within a bound, and damage is refused.
#include "net/gunzip.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lib/run.hpp"
#include "net/gzip_text.hpp"

using namespace osm;
using namespace osm::net;

namespace {

constexpr std::size_t kMost = 4 * 1024 * 1024;

struct Read {
  std::string content;
  std::size_t largest = 0;
  Status end;
};

Read read(std::string_view bytes, const std::function<std::size_t()>& piece,
          std::size_t most = kMost) {
  Read out;
  Gunzip gunzip(most);
  for (std::size_t at = 0; at < bytes.size() && out.end.ok();) {
    const std::size_t size = piece();
    out.end = gunzip.feed(bytes.substr(at, size), [&](std::string_view part) {
      out.content += part;
      out.largest = std::max(out.largest, part.size());
      return true;
    });
    at += size;
  }
  if (out.end.ok()) out.end = gunzip.finish();
  return out;
}

std::string from_hex(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  return out;
}

TEST_SUITE("net::Gunzip") {
  TEST_CASE("a text is the same however its compressed bytes are cut") {
    auto random = osm::testing::seeded();
    std::vector<std::string> texts{"", "a", std::string(2'000'000, 'x')};
    std::string mixed;  // from the incompressible to the repeated
    while (mixed.size() < 300'000) {
      if (random() % 2)
        mixed += static_cast<char>(random());
      else
        mixed.append(random() % 500, static_cast<char>(random()));
    }
    texts.push_back(mixed);
    for (const std::string& text : texts) {
      const std::string bytes = gzip_text(text);
      for (const std::size_t most : {1, 7, 5000, 10'000'000}) {
        CAPTURE(most);
        const Read got = read(bytes, [&] { return 1 + random() % most; });
        REQUIRE_MESSAGE(got.end.ok(), got.end.error().text());
        CHECK(got.content == text);
        CHECK(got.largest <= 64 * 1024);
      }
    }
  }

  TEST_CASE("what zlib wrote is read") {
    const Read got = read(
        from_hex(
            "1f8b08000000000002ffab56ca2c49cd2d56b28aae564a54b232acd5c141c7d60200632e6f902b000000"),
        [] { return 5; });
    REQUIRE(got.end.ok());
    CHECK(got.content == R"({"items":[{"a":1},{"a":1},{"a":1},{"a":1}]})");
  }

  TEST_CASE("a body that grows beyond its bound is refused before it has grown") {
    const std::string bomb = gzip_text(std::string(3'000'000, 'x'));
    CHECK(bomb.size() < 10'000);
    const Read got = read(
        bomb, [] { return 1'000'000; }, 1'000'000);
    CHECK(got.end.error().code == ErrorCode::kTooLarge);
    CHECK(got.content.size() <= 1'000'000);
  }

  TEST_CASE("bytes that are cut, damaged or followed by others are refused") {
    const std::string whole = gzip_text("some words, some words, some words");
    for (std::size_t size = 0; size < whole.size(); ++size) {
      CAPTURE(size);
      CHECK(read(whole.substr(0, size), [] { return 3; }).end.error().code ==
            ErrorCode::kInvalidSyntax);
    }
    for (std::size_t at = 0; at < whole.size(); ++at) {
      if (at >= 4 && at < 10) continue;  // a time and the like
      CAPTURE(at);
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x5a);
      CHECK_FALSE(read(damaged, [] { return 1000; }).end.ok());
    }
    CHECK_FALSE(read(whole + "x", [] { return 1000; }).end.ok());
    CHECK_FALSE(read("plain text", [] { return 1000; }).end.ok());
  }
}

}  // namespace
