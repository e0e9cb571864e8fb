// Records in etcd are replaced only by who read their last version, and the record of a controller
// that was alone moves there.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <future>

#include "base/base64.hpp"
#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "lib/record_contract.hpp"
#include "net/scripted_server.hpp"
#include "osm/certificate/ca_store.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/etcd/backend.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

using etcd_test::contains;
using etcd_test::FakeEtcd;

struct FirstRng final : Rng {
  std::uint64_t next() override { return 0; }
};

struct Fixture {
  Fixture() {
    etcd.keys().now = [this] { return clock.steady_now(); };
  }
  Backend backend() {
    auto made = etcd::make_backend({.etcd = client.options,
                                    .objects = runtime,
                                    .board = runtime,
                                    .replica = "a",
                                    .moved_from = alone});
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    return *std::move(made);
  }
  std::unique_ptr<TextRecord> open() { return std::move(backend().root_rotation); }
  bool has_key(const std::string& key) {
    const std::lock_guard lock(etcd.keys().mutex);
    return etcd.keys().values.contains(key);
  }
  bool has_file(const std::string& name) const {
    return std::filesystem::exists(client.folder.file(name));
  }
  ErrorCode refusal(net::Response answer) {
    etcd.set_fault(std::move(answer));
    const auto record = open();
    const auto loaded = record->load();
    const Status stored = record->store({"text", "1"});
    REQUIRE_FALSE(loaded.ok());
    REQUIRE_FALSE(stored.ok());
    CHECK(loaded.error().code == stored.error().code);
    CHECK(contains(stored.error().message, "key /osm/ca/rotation of etcd (" + etcd.url() + ")"));
    return stored.error().code;
  }

  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  FirstRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  const Runtime runtime{executor, executor, clock, rng, log, metrics};
  FakeEtcd etcd;
  etcd_test::ClientOptions client{{etcd.url()}};
  const std::string alone = client.folder.file("rotation.json");
};

constexpr const char* kKnown =
    R"json({"roots": [{"name": "(own)", "state": "signing", "bundle": "PEM"}]})json";

TEST_SUITE("etcd::Backend::drained_machines") {
  TEST_CASE_FIXTURE(Fixture, "the contract of records is kept, in a key of its own") {
    osm::testing::check_record_contract([&] { return std::move(backend().drained_machines); });
    CHECK(has_key("/osm/ca/drained-machines"));
    CHECK_FALSE(has_key("/osm/ca/rotation"));
  }
}

TEST_SUITE("etcd::Backend::root_rotation") {
  TEST_CASE_FIXTURE(Fixture, "the contract of records is kept") {
    osm::testing::check_record_contract([&] { return open(); });
    CHECK(has_key("/osm/ca/rotation"));
  }

  TEST_CASE_FIXTURE(Fixture, "a deleted record is not replaced under its old version") {
    const auto record = open();
    REQUIRE(record->store({"one", ""}).ok());
    const std::string version = record->load()->version;
    {
      const std::lock_guard lock(etcd.keys().mutex);
      etcd.keys().values.clear();
    }
    CHECK(record->store({"two", version}).error().code == ErrorCode::kConflict);
    CHECK(record->load()->version.empty());
    CHECK(record->store({"two", ""}).ok());
  }

  TEST_CASE_FIXTURE(Fixture, "an etcd that is away is unavailable; refusals name the key") {
    CHECK(refusal(FakeEtcd::refusal(503, 14, "etcdserver: request timed out")) ==
          ErrorCode::kUnavailable);
    CHECK(refusal(FakeEtcd::refusal(403, 7, "etcdserver: permission denied")) ==
          ErrorCode::kPermissionDenied);
    CHECK(refusal(net::text_response("404 page not found", 404)) == ErrorCode::kStorage);
    CHECK(refusal(net::json_response("[]")) == ErrorCode::kStorage);
  }

  TEST_CASE_FIXTURE(Fixture, "a CA that etcd lost is not made anew while the record trusts it") {
    const auto record = open();
    REQUIRE(record->store({kKnown, ""}).ok());
    const auto known = known_ca(*record, kOwnRoot);
    REQUIRE(known.ok());
    CHECK(known->bundle_pem == "PEM");
    CHECK(contains(known->record, "key /osm/ca/rotation of etcd"));
  }
}

TEST_SUITE("etcd::Backend::join") {
  TEST_CASE_FIXTURE(Fixture, "the record of a controller that was alone moves into etcd") {
    client.file("rotation.json", kKnown);
    REQUIRE(backend().join().ok());
    CHECK(open()->load()->text == kKnown);
    CHECK_FALSE(has_file("rotation.json"));
    CHECK(client.folder.read("rotation.json.old") == kKnown);
    CHECK(log.count("has moved into etcd") == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a record that etcd has wins") {
    REQUIRE(open()->store({"theirs", ""}).ok());
    client.file("rotation.json", kKnown);
    REQUIRE(backend().join().ok());
    CHECK(open()->load()->text == "theirs");
    CHECK_FALSE(has_file("rotation.json"));
    CHECK(client.folder.read("rotation.json.old") == kKnown);
    CHECK(log.count("in etcd is in force") == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a damaged record does not move") {
    client.file("rotation.json", "{");
    const auto joined = backend().join();
    REQUIRE_FALSE(joined.ok());
    CHECK(contains(joined.error().message, alone));
    CHECK(has_file("rotation.json"));
    CHECK_FALSE(has_key("/osm/ca/rotation"));
    CHECK_FALSE(has_key("/osm/ca/replicas/a"));
    CHECK(log.count("has joined the others") == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a record that another controller stores meanwhile wins") {
    client.file("rotation.json", kKnown);
    {
      const std::lock_guard lock(etcd.keys().mutex);
      etcd.keys().meanwhile = [this] { etcd.keys().put("/osm/ca/rotation", base64("theirs"), ""); };
    }
    REQUIRE(backend().join().ok());
    CHECK(open()->load()->text == "theirs");
    CHECK_FALSE(has_file("rotation.json"));
    CHECK(client.folder.read("rotation.json.old") == kKnown);
    CHECK(log.count("in etcd is in force") == 1);
    CHECK(log.count("has moved into etcd") == 0);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a file that cannot be renamed fails the call, which may be repeated") {
    client.file("rotation.json", kKnown);
    const std::string kept = alone + ".old";
    std::filesystem::create_directory(kept);
    const Backend shared = backend();
    const auto joined = shared.join();
    REQUIRE_FALSE(joined.ok());
    CHECK(joined.error().code == ErrorCode::kStorage);
    CHECK(contains(joined.error().message, alone + ": cannot be renamed to " + kept));
    CHECK(contains(joined.error().message, "rename or remove it"));
    CHECK(has_file("rotation.json"));
    CHECK_FALSE(has_key("/osm/ca/replicas/a"));
    CHECK(log.count("record of root rotations") == 0);
    std::filesystem::remove(kept);
    REQUIRE(shared.join().ok());
    CHECK(open()->load()->text == kKnown);
    CHECK_FALSE(has_file("rotation.json"));
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a call after one that failed joins, and nothing moves without a file") {
    const Backend shared = backend();
    etcd.set_fault(FakeEtcd::refusal(503, 14, "etcdserver: request timed out"));
    CHECK(shared.join().error().code == ErrorCode::kUnavailable);
    etcd.set_fault({});
    const auto board = shared.join();
    REQUIRE_MESSAGE(board.ok(), board.error().text());
    CHECK((*board)->read("roots").value().size() == 1);
    CHECK_FALSE(has_key("/osm/ca/rotation"));
    CHECK_FALSE(has_file("rotation.json.old"));
  }
}

// An etcd that takes each request and never answers.
struct SilentEtcd {
  net::ScriptedServer server{[](net::Peer& peer) {
    while (!peer.next_request().empty()) continue;
  }};
  const std::string url = "http://" + server.address().str();
};

TEST_SUITE("etcd::make_backend") {
  TEST_CASE_FIXTURE(Fixture, "an etcd has 2 s for records and the board, and 5 s for a CA") {
    const SilentEtcd silent;
    client.options.endpoints = {silent.url};
    const Backend shared = backend();
    const auto ca = shared.ca_store({.root = kOwnRoot});
    REQUIRE_MESSAGE(ca.ok(), ca.error().text());
    auto joined = std::async(std::launch::async, [&] { return shared.join(); });
    auto loaded = std::async(std::launch::async, [&] { return (*ca)->load(); });
    const auto text = shared.root_rotation->load();
    const auto board = joined.get();
    const auto pem = loaded.get();
    REQUIRE_FALSE(text.ok());
    CHECK(text.error().code == ErrorCode::kUnavailable);
    CHECK(contains(text.error().message, "2000 ms"));
    REQUIRE_FALSE(board.ok());
    CHECK(board.error().code == ErrorCode::kUnavailable);
    CHECK(contains(board.error().message, "2000 ms"));
    REQUIRE_FALSE(pem.ok());
    CHECK(pem.error().code == ErrorCode::kUnavailable);
    CHECK(contains(pem.error().message, "5000 ms"));
  }
}

}  // namespace
