// The record of a rotation in etcd is replaced only by who read its last version.
#include <doctest/doctest.h>

#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "lib/replica_contracts.hpp"
#include "osm/certificate/etcd_replicas.hpp"

using namespace osm;

namespace {

using etcd_test::contains;
using etcd_test::FakeEtcd;

struct Fixture {
  std::unique_ptr<TextRecord> open() {
    auto record = etcd::make_rotation_record(client.options);
    REQUIRE_MESSAGE(record.ok(), record.error().text());
    return *std::move(record);
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

  FakeEtcd etcd;
  etcd_test::ClientOptions client{{etcd.url()}};
};

TEST_SUITE("etcd::make_drain_record") {
  TEST_CASE_FIXTURE(Fixture, "the contract of records is kept, in a key of its own") {
    osm::testing::check_record_contract([&] {
      auto record = etcd::make_drain_record(client.options);
      REQUIRE_MESSAGE(record.ok(), record.error().text());
      return *std::move(record);
    });
    const std::lock_guard lock(etcd.keys().mutex);
    CHECK(etcd.keys().values.contains("/osm/ca/drained-machines"));
    CHECK_FALSE(etcd.keys().values.contains("/osm/ca/rotation"));
  }
}

TEST_SUITE("etcd::make_rotation_record") {
  TEST_CASE_FIXTURE(Fixture, "the contract of records is kept") {
    osm::testing::check_record_contract([&] { return open(); });
    const std::lock_guard lock(etcd.keys().mutex);
    CHECK(etcd.keys().values.contains("/osm/ca/rotation"));
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
    REQUIRE(record
                ->store({R"json({"roots": [{"name": "(own)", "state": "signing",)json"
                         R"json( "bundle": "PEM"}]})json",
                         ""})
                .ok());
    const auto known = known_ca(*record, kOwnRoot);
    REQUIRE(known.ok());
    CHECK(known->bundle_pem == "PEM");
    CHECK(contains(known->record, "key /osm/ca/rotation of etcd"));
  }
}

}  // namespace
