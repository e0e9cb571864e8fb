// Items of a list are decoded as they arrive, however their bytes are cut, within bounds.
#include "kubernetes/client/list_decoder.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "lib/run.hpp"

using namespace osm;

namespace {

using kubernetes::ListDecoder;
namespace json = boost::json;

struct Read {
  std::vector<json::object> items;
  Status fed;
  Result<json::object> around = json::object();
};

Read read(const std::string& text, const std::function<std::size_t()>& piece,
          std::size_t max_bytes = 1000) {
  Read out;
  ListDecoder decoder("list pods", max_bytes);
  for (std::size_t at = 0; at < text.size() && out.fed.ok();) {
    const std::size_t bytes = piece();
    out.fed = decoder.feed(std::string_view(text).substr(at, bytes), [&](json::object item) {
      out.items.push_back(std::move(item));
      return true;
    });
    at += bytes;
  }
  if (out.fed.ok()) out.around = decoder.finish();
  return out;
}

const std::vector<std::string> kLists{
    R"({"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":"}]\\\"{"},{"b":[[{}],{}]}]})",
    R"({"items" : [ {"metadata":{"items":[1]}} ,)"
    "\n"
    R"({} ] , "metadata":{"items":[{"x":1}],"continue":"c"}, "kind":"items"})",
    R"({"a":"items","b":[{"c":1}],"items":[]})",
    R"({"items":null,"metadata":{}})",
    R"({})",
};

TEST_SUITE("kubernetes::ListDecoder") {
  TEST_CASE("a list is the same as when it is parsed whole, however its bytes are cut") {
    auto random = osm::testing::seeded();
    for (const std::string& text : kLists) {
      CAPTURE(text);
      json::object whole = json::parse(text).as_object();
      json::array wanted;
      if (auto* items = whole.if_contains("items"); items && items->is_array()) {
        wanted = items->as_array();
        items->as_array().clear();
      }
      for (int round = 0; round < 100; ++round) {
        const Read got = read(text, [&] { return round == 0 ? 1 : 1 + random() % 40; });
        REQUIRE(got.fed.ok());
        REQUIRE(got.around.ok());
        CHECK(*got.around == whole);
        REQUIRE(got.items.size() == wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(got.items[i] == wanted[i]);
      }
    }
  }

  TEST_CASE("what is no list, or only the beginning of one, is refused wherever it is cut") {
    for (const std::string text :
         {"", "[]", "{", "}", R"({"items":[)", R"({"items":[{"a":1})", R"({"items":[{"a":1}])",
          R"({"items":[1]})", R"({"items":["a"]})", R"({"items":[[]]})", R"({"items":[{]})",
          R"({"items":[{"a":}]})", R"({"items":[{}]}x)", R"({"items":[{}]}{"items":[{}]})"})
      for (const std::size_t piece : {1, 3, 100}) {
        CAPTURE(text);
        const Read got = read(text, [&] { return piece; });
        const Status end =
            got.fed.ok() ? (got.around.ok() ? Status() : got.around.error()) : got.fed;
        REQUIRE_FALSE(end.ok());
        CHECK(end.error().code == ErrorCode::kInvalidSyntax);
      }
  }

  TEST_CASE("an item, and what is around the items, has a bound; the list has none") {
    const std::string item = R"({"a":")" + std::string(90, 'x') + R"("},)";
    std::string many = R"({"items":[)";
    for (int i = 0; i < 100; ++i) many += item;
    many += "{}]}";
    for (const std::size_t piece : {1, 7, 100'000}) {
      const auto pieces = [&] { return piece; };
      CHECK(read(many, pieces, 100).items.size() == 101);
      const Read big = read(R"({"items":[{"a":")" + std::string(100, 'x'), pieces, 100);
      CHECK(big.fed.error().code == ErrorCode::kTooLarge);
      const Read around = read(R"({"a":")" + std::string(100, 'x'), pieces, 100);
      CHECK(around.fed.error().code == ErrorCode::kTooLarge);
    }
  }

  TEST_CASE("nothing is read once the reader has gone") {
    ListDecoder decoder("list pods");
    int items = 0;
    CHECK(decoder
              .feed(R"({"items":[{},{},{}]})",
                    [&](const json::object&) {
                      ++items;
                      return false;
                    })
              .ok());
    CHECK(items == 1);
  }
}

}  // namespace
