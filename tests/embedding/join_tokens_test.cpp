// Tokens of machines work once, of all replicas for one caller, end in time, and their secrets are
// not recorded.
#include "admin/join_tokens.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::admin;
using namespace std::chrono_literals;

namespace {

// Replaces a text of the version that is named, as all records do.
class MemoryRecord final : public TextRecord {
 public:
  std::string name() const override { return "memory"; }
  Result<Text> load() override {
    const std::lock_guard lock(mutex_);
    ++loads;
    return Text{text, std::to_string(version_)};
  }
  Status store(const Text& next) override {
    const std::lock_guard lock(mutex_);
    if (next.version != std::to_string(version_)) return Error{ErrorCode::kConflict, "changed"};
    text = next.text;
    ++version_;
    return {};
  }

  std::string text;
  int loads = 0;

 private:
  std::mutex mutex_;
  int version_ = 0;
};

struct Rig {
  MemoryRecord record;
  osm::testing::ManualClock clock;
  JoinTokens tokens{record, clock};
};

const WorkloadName kWeb{"shop", "web-1"};

}  // namespace

TEST_SUITE("admin.join_tokens") {
  TEST_CASE("a token is for one machine and for one use, and its secret is not recorded") {
    Rig rig;
    const auto token = rig.tokens.make(kWeb, 15min);
    REQUIRE(token);
    CHECK(token->secret.size() == 64);
    CHECK(rig.record.text.find(token->id) != std::string::npos);
    CHECK(rig.record.text.find(token->secret) == std::string::npos);
    CHECK(*rig.tokens.find(token->id, token->secret) == kWeb);
    CHECK(*rig.tokens.take(token->id, token->secret) == kWeb);
    for (const auto& again :
         {rig.tokens.find(token->id, token->secret), rig.tokens.take(token->id, token->secret)})
      CHECK(again.error().code == ErrorCode::kPermissionDenied);
  }

  TEST_CASE("wrong, expired and replaced tokens are refused with one text") {
    Rig rig;
    const auto first = rig.tokens.make(kWeb, 15min);
    const auto other = rig.tokens.make({"shop", "web-2"}, 1min);
    const auto second = rig.tokens.make(kWeb, 15min);
    REQUIRE((first && other && second));
    const auto why = rig.tokens.find("", "").error().message;
    CHECK(why.find("osm vm token") != std::string::npos);
    for (const auto& [id, secret] :
         std::vector<std::pair<std::string, std::string>>{{first->id, first->secret},
                                                          {second->id, other->secret},
                                                          {second->id, ""},
                                                          {"", second->secret},
                                                          {second->id, second->secret + "0"}})
      CHECK(rig.tokens.take(id, secret).error().message == why);
    CHECK(rig.tokens.find(other->id, other->secret));
    rig.clock.advance(61s);
    CHECK(rig.tokens.find(other->id, other->secret).error().message == why);
    CHECK(rig.tokens.take(second->id, second->secret));
  }

  TEST_CASE("a life outside of its bounds, and too many tokens, are refused") {
    Rig rig;
    for (const auto life : {0s, 59s, 24 * 3600s + 1s})
      CHECK(rig.tokens.make(kWeb, life).error().code == ErrorCode::kInvalidArgument);
    for (int i = 0; i < 1000; ++i) REQUIRE(rig.tokens.make({"shop", "m" + std::to_string(i)}, 60s));
    CHECK(rig.tokens.make(kWeb, 60s).error().code == ErrorCode::kTooLarge);
    rig.clock.advance(61s);
    CHECK(rig.tokens.make(kWeb, 60s));
  }

  TEST_CASE("of replicas and threads that take one token, one gets it") {
    Rig rig;
    JoinTokens replica(rig.record, rig.clock);
    const auto token = rig.tokens.make(kWeb, 15min);
    REQUIRE(token);
    std::atomic<int> taken{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        if ((i % 2 ? replica : rig.tokens).take(token->id, token->secret).ok()) ++taken;
      });
    for (auto& thread : threads) thread.join();
    CHECK(taken == 1);
  }

  TEST_CASE("strangers read the record at a bounded rate, and keep no machine from joining") {
    Rig rig;
    const auto known = rig.tokens.make(kWeb, 15min);
    REQUIRE(known);
    const int before = rig.record.loads;
    for (int i = 0; i < 20; ++i)
      CHECK(rig.tokens.find("a", "b").error().code == ErrorCode::kPermissionDenied);
    const auto flood = [&] {
      for (int i = 0; i < 1000; ++i) CHECK_FALSE(rig.tokens.take("a", "b"));
    };
    flood();
    CHECK(rig.record.loads == before + 20);
    CHECK(rig.tokens.find("a", "b").error().code == ErrorCode::kNotReady);
    CHECK(*rig.tokens.find(known->id, known->secret) == kWeb);
    CHECK(rig.tokens.find(known->id, "b").error().code == ErrorCode::kNotReady);

    // Another replica made it in the same moment: it is found when the record is read again.
    JoinTokens replica(rig.record, rig.clock);
    const auto late = replica.make({"shop", "web-2"}, 15min);
    REQUIRE(late);
    CHECK(rig.tokens.find(late->id, late->secret).error().code == ErrorCode::kNotReady);
    rig.clock.advance(50ms);
    flood();
    CHECK(rig.tokens.find(late->id, late->secret));
    CHECK(rig.tokens.take(late->id, late->secret));
    CHECK(*rig.tokens.take(known->id, known->secret) == kWeb);
    CHECK_FALSE(rig.tokens.take(known->id, known->secret));
  }

  TEST_CASE("a record that is damaged is an error") {
    Rig rig;
    rig.record.text = "{";
    CHECK(rig.tokens.find("a", "b").error().code == ErrorCode::kInvalidSyntax);
    CHECK(rig.tokens.make(kWeb, 60s).error().code == ErrorCode::kInvalidSyntax);
    CHECK(rig.record.text == "{");
  }
}
