// Answers to a watch are read wherever they are cut, and foreign ones are refused.
#include "etcd/watch_answers.hpp"

#include <doctest/doctest.h>

#include "base/base64.hpp"

using namespace osm;

namespace {

using etcd::WatchAnswer;
using etcd::WatchReader;

std::vector<WatchAnswer> read_all(std::string_view text, std::size_t step) {
  WatchReader reader;
  std::vector<WatchAnswer> all;
  for (; !text.empty(); text.remove_prefix(std::min(step, text.size()))) {
    auto some = reader.read(text.substr(0, step));
    REQUIRE_MESSAGE(some.ok(), some.error().text());
    for (WatchAnswer& answer : *some) all.push_back(std::move(answer));
  }
  return all;
}

TEST_SUITE("etcd::WatchReader") {
  TEST_CASE("answers are read wherever their text is cut") {
    const std::string text =
        R"({"result":{"header":{"revision":"4"},"created":true}})"
        "\n"
        R"({"result":{"header":{"revision":"5"},"fragment":true,"events":[{"kv":{"key":")" +
        base64("/a") + R"(","mod_revision":"5","value":")" + base64("1") +
        R"("}},{"type":"DELETE","kv":{"key":")" + base64("/b") +
        R"(","mod_revision":"5"}}]}})"
        "\n"
        R"({"result":{"header":{"revision":"9"}}})"
        "\n"
        R"({"result":{"header":{"cluster_id":"1"},"canceled":true,"compact_revision":"7"}})"
        "\n"
        R"({"error":{"grpc_code":14,"message":"etcdserver: no leader"}})"
        "\n";
    for (const std::size_t step : {text.size(), std::size_t(7), std::size_t(1)}) {
      const auto answers = read_all(text, step);
      REQUIRE(answers.size() == 5);
      CHECK(answers[0].created);
      CHECK_FALSE(answers[0].is_progress());
      CHECK(answers[1].fragment);
      REQUIRE(answers[1].events.size() == 2);
      CHECK(answers[1].events[0].pair == etcd::Pair{"/a", "1", 5});
      CHECK_FALSE(answers[1].events[0].deleted);
      CHECK(answers[1].events[1].pair == etcd::Pair{"/b", "", 5});
      CHECK(answers[1].events[1].deleted);
      CHECK(answers[2].is_progress());
      CHECK(answers[2].revision == 9);
      CHECK(answers[3].canceled);
      CHECK(answers[3].compact_revision == 7);
      CHECK(answers[4].canceled);
      CHECK(answers[4].reason == "etcdserver: no leader");
    }
  }

  TEST_CASE("a text that etcd does not send is a failure") {
    for (
        const char* text :
        {"<html>\n", "[]\n", "{}\n",
         R"({"result":{}})"
         "\n",
         R"({"result":{"header":{"revision":"5"},"events":[{"kv":{"key":"?","mod_revision":"5"}}]}})"
         "\n",
         R"({"result":{"header":{"revision":"5"},"events":[{}]}})"
         "\n",
         R"({"result":{"header":{"revision":"5"},"events":[{"kv":{"key":"YQ=="}}]}})"
         "\n"}) {
      CAPTURE(text);
      WatchReader reader;
      const auto read = reader.read(text);
      REQUIRE_FALSE(read.ok());
      CHECK(read.error().code == ErrorCode::kInvalidSyntax);
    }
  }

  TEST_CASE("a line without an end is refused at its limit") {
    WatchReader reader;
    const std::string part(1024 * 1024, ' ');
    for (std::size_t read = 0; read < WatchReader::kMaxLine; read += part.size())
      REQUIRE(reader.read(part).ok());
    CHECK(reader.read(" ").error().code == ErrorCode::kTooLarge);
  }
}

}  // namespace
