// Watch events are decoded however their bytes are cut, within bounds.
#include "kubernetes/client/watch_decoder.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/json.hpp"
#include "lib/run.hpp"

using namespace osm;

namespace {

using kubernetes::WatchDecoder;
using kubernetes::WatchEventType;
namespace json = boost::json;

std::string event(const std::string& type, const std::string& name) {
  return R"({"type":")" + type + R"(","object":{"metadata":{"name":")" + name + "\"}}}\n";
}

struct Seen {
  std::vector<std::string> names;
  bool operator()(WatchEventType type, const json::object& object) {
    names.push_back(std::to_string(static_cast<int>(type)) +
                    text_at(map_at(object, "metadata"), "name"));
    return true;
  }
};

TEST_SUITE("kubernetes::WatchDecoder") {
  TEST_CASE("events are the same however their bytes are cut") {
    const std::string text = event("ADDED", "a") + event("MODIFIED", "a\\n\xc3\xa4") + "\n" +
                             event("DELETED", "a") + event("BOOKMARK", "");
    const std::vector<std::string> expected{"0a", "1a\n\xc3\xa4", "2a", "3"};
    auto random = osm::testing::seeded();
    for (int round = 0; round < 200; ++round) {
      WatchDecoder decoder("watch pods");
      Seen seen;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t bytes = round == 0 ? 1 : 1 + random() % 80;
        REQUIRE(decoder.feed(std::string_view(text).substr(at, bytes), std::ref(seen)).ok());
        at += bytes;
      }
      CHECK(seen.names == expected);
    }
  }

  TEST_CASE("a line beyond the bound ends it, wherever it is cut") {
    for (const std::size_t bytes : {1, 7, 1000}) {
      WatchDecoder decoder("watch pods", 100);
      Seen seen;
      Status fed;
      const std::string text = event("ADDED", std::string(200, 'x'));
      for (std::size_t at = 0; at < text.size() && fed.ok(); at += bytes)
        fed = decoder.feed(std::string_view(text).substr(at, bytes), std::ref(seen));
      REQUIRE_FALSE(fed.ok());
      CHECK(fed.error().code == ErrorCode::kTooLarge);
      CHECK(seen.names.empty());
    }
  }

  TEST_CASE("an error of the server ends it with its code") {
    WatchDecoder decoder("watch pods");
    Seen seen;
    const std::string error =
        R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired",)"
        R"("message":"too old resource version: 1"}})"
        "\n";
    const Status fed =
        decoder.feed(event("ADDED", "a") + error + event("ADDED", "b"), std::ref(seen));
    REQUIRE_FALSE(fed.ok());
    CHECK(fed.error().code == ErrorCode::kGone);
    CHECK(fed.error().message == "watch pods: too old resource version: 1");
    CHECK(seen.names == std::vector<std::string>{"0a"});
  }

  TEST_CASE("a line that is no event ends the watch and is not quoted") {
    for (const char* text :
         {"s3cret\n", "[]\n", "{}\n", "{\"type\":\"ADDED\"}\n",
          "{\"type\":\"ADDED\",\"object\":1}\n", "{\"type\":\"OTHER\",\"object\":{}}\n",
          "{\"object\":{}}\n", "\xff\xfe\n"}) {
      CAPTURE(text);
      WatchDecoder decoder("watch pods");
      Seen seen;
      const Status fed = decoder.feed(text, std::ref(seen));
      REQUIRE_FALSE(fed.ok());
      CHECK(fed.error().code == ErrorCode::kInvalidSyntax);
      CHECK(fed.error().message.find("s3cret") == std::string::npos);
    }
  }

  TEST_CASE("nesting is bounded") {
    WatchDecoder decoder("watch pods");
    Seen seen;
    std::string deep = R"({"type":"ADDED","object":{"a":)";
    deep += std::string(100'000, '[') + std::string(100'000, ']') + "}}\n";
    CHECK_FALSE(decoder.feed(deep, std::ref(seen)).ok());
  }

  TEST_CASE("a callback that stops gets no more events") {
    WatchDecoder decoder("watch pods");
    int told = 0;
    CHECK(decoder
              .feed(event("ADDED", "a") + event("ADDED", "b"),
                    [&](WatchEventType, const json::object&) { return ++told == 0; })
              .ok());
    CHECK(told == 1);
  }
}

}  // namespace
