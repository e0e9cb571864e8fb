// A replica that is cut off asks the others' /version, and refuses proxies while one of them is
// not.
#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "osm/host/health.hpp"
#include "osm/host/stale_replica.hpp"

using namespace osm;
using namespace std::chrono_literals;

namespace {

// The board of replica "a".
class Board final : public ReplicaBoard {
 public:
  Status publish(const std::string& topic, std::string text) override {
    const std::lock_guard lock(mutex_);
    CHECK(topic == "address");
    texts_["a"] = std::move(text);
    return {};
  }
  Result<std::map<std::string, std::string>> read(const std::string&) const override {
    const std::lock_guard lock(mutex_);
    return texts_;
  }
  std::optional<SteadyTime> confirmed_at() const override { return confirmed; }
  Subscription subscribe(std::function<void()>) override { return {}; }
  bool leads() const override { return false; }
  Subscription stand(std::function<void()>) override { return {}; }

  void put(const std::string& replica, const std::string& text) {
    const std::lock_guard lock(mutex_);
    texts_[replica] = text;
  }
  std::string text_of(const std::string& replica) const { return read("").value()[replica]; }

  std::optional<SteadyTime> confirmed{};

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> texts_{{"a", ""}};
};

// Replica "b", which answers for its mesh.
struct Other final : host::Monitored {
  std::vector<std::string> missing() const override { return {}; }
  std::vector<Problem> problems() const override { return {}; }
  std::optional<host::MeshVersion> mesh() const override {
    return host::MeshVersion{"b", 1, "f00d", stale, true};
  }
  bool stale = false;
};

struct Fixture {
  Board board;
  OwnRuntime runtime{{.least = LogLevel::kError}};
  Other other;
  std::unique_ptr<host::Health> version;
  std::unique_ptr<host::StaleReplicaGuard> guard;

  void start(SteadyTime confirmed) {
    version = host::Health::start({.address = {"127.0.0.1", 0}, .runtime = runtime, .start = other})
                  .value();
    board.confirmed = confirmed;
    board.put("b", version->address().str());
    guard = host::StaleReplicaGuard::start(
                {.board = &board, .replica = "a", .runtime = runtime, .stale_after = 15s})
                .value();
  }
  SteadyTime ago(std::chrono::seconds time) const { return runtime.clock.steady_now() - time; }
  // True when the other replica was asked.
  bool asked() const {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (std::chrono::steady_clock::now() < deadline) {
      const std::string metrics = runtime.registry().expose();
      if (metrics.find("path=\"/version\"") != std::string::npos &&
          metrics.find("osm_replica_staleness_seconds ") != std::string::npos)
        return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
};

}  // namespace

TEST_SUITE("host::StaleReplicaGuard") {
  TEST_CASE_FIXTURE(Fixture, "a stale replica refuses proxies while another one is not stale") {
    start(ago(1h));
    REQUIRE(asked());
    CHECK(guard->stale());
    const Status admits = guard->admits();
    REQUIRE_FALSE(admits.ok());
    CHECK(admits.error().code == ErrorCode::kUnavailable);
  }

  TEST_CASE_FIXTURE(Fixture, "a stale replica serves when the others are stale, too") {
    other.stale = true;
    start(ago(1h));
    REQUIRE(asked());
    CHECK(guard->stale());
    CHECK(guard->admits().ok());
  }

  TEST_CASE_FIXTURE(Fixture, "the others learn where to ask this replica") {
    start(ago(0s));
    CHECK_FALSE(guard->stale());
    guard->announce({"10.0.0.7", 9091});
    CHECK(board.text_of("a") == "10.0.0.7:9091");
  }

  TEST_CASE_FIXTURE(Fixture, "a replica without a board is never stale") {
    guard = host::StaleReplicaGuard::start(
                {.board = nullptr, .replica = "a", .runtime = runtime, .stale_after = 15s})
                .value();
    guard->announce({"10.0.0.7", 9091});
    CHECK_FALSE(guard->stale());
    CHECK(guard->admits().ok());
  }

  TEST_CASE_FIXTURE(Fixture, "a time that no question fits into is refused") {
    const auto refused = host::StaleReplicaGuard::start(
        {.board = &board, .replica = "a", .runtime = runtime, .stale_after = 14s});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  }
}
