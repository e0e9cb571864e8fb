// Records in ConfigMaps are replaced only by who read their last version.
#include <doctest/doctest.h>

#include "kubernetes/client/memory_api.hpp"
#include "kubernetes/client/resources.hpp"
#include "lib/record_contract.hpp"
#include "osm/certificate/ca_store.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/kubernetes/backend.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

namespace k = kubernetes;

struct FirstRng final : Rng {
  std::uint64_t next() override { return 0; }
};

struct Fixture {
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  FirstRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  const Runtime runtime{executor, executor, clock, rng, log, metrics};
  kubernetes_test::MemoryApiCluster cluster{clock};
  std::unique_ptr<TextRecord> record = std::move(backend().root_rotation);

  Backend backend(const std::string& ns = "osm-system") {
    return k::make_backend(
        {.board = {.cluster = cluster, .runtime = runtime, .replica = "a", .osm_namespace = ns},
         .objects = runtime});
  }
  TextRecord::Text load() {
    auto text = record->load();
    REQUIRE_MESSAGE(text.ok(), text.error().text());
    return *text;
  }
  ErrorCode store(const std::string& text, const std::string& version) {
    const Status stored = record->store({text, version});
    return stored.ok() ? ErrorCode{-1} : stored.error().code;
  }
  void fail(ErrorCode code) {
    cluster.memory.set_fault([code](const std::string&) -> Status {
      return Error{code, "configmaps is forbidden"};
    });
  }
};

constexpr ErrorCode kDone{-1};

TEST_SUITE("kubernetes::Backend::last_mesh_config") {
  TEST_CASE("the contract of records is kept, in a ConfigMap of its own") {
    Fixture f;
    CHECK(f.store("rotation", "") == kDone);
    osm::testing::check_record_contract([&] { return std::move(f.backend().last_mesh_config); });
    CHECK(f.load().text == "rotation");
    CHECK(f.backend().last_mesh_config->name() == "ConfigMap osm-system/osm-last-mesh-config");
  }
}

TEST_SUITE("kubernetes records of machines") {
  TEST_CASE("the contract of records is kept, in ConfigMaps of their own") {
    Fixture f;
    CHECK(f.store("rotation", "") == kDone);
    osm::testing::check_record_contract([&] { return std::move(f.backend().join_tokens); });
    osm::testing::check_record_contract([&] { return std::move(f.backend().drained_machines); });
    CHECK(f.load().text == "rotation");
    CHECK(f.backend().join_tokens->name() == "ConfigMap osm-system/osm-join-tokens");
    CHECK(f.backend().drained_machines->name() == "ConfigMap osm-system/osm-drained-machines");
  }
}

TEST_SUITE("kubernetes::Backend::root_rotation") {
  TEST_CASE("the contract of records is kept") {
    Fixture f;
    osm::testing::check_record_contract([&] { return std::move(f.backend().root_rotation); });
  }

  TEST_CASE("any daemon reads the stored record with its version") {
    Fixture f;
    CHECK(f.load().text.empty());
    CHECK(f.load().version.empty());
    CHECK(f.store("one", "") == kDone);
    const auto one = f.backend().root_rotation->load();
    REQUIRE(one.ok());
    CHECK(one->text == "one");
    CHECK(f.store("two", one->version) == kDone);
    CHECK(f.load().text == "two");
    const auto object = f.cluster.memory.at(k::kConfigMaps, "osm-system", "osm-root-rotation");
    CHECK(object.at("data") == boost::json::object{{"record", "two"}});
    CHECK(object.at("metadata").at("labels").at("app.kubernetes.io/name") == "openservicemesh.io");
    CHECK(f.backend("elsewhere").root_rotation->load()->text.empty());
  }

  TEST_CASE("of two simultaneous writes the second is a conflict") {
    Fixture f;
    CHECK(f.store("one", "") == kDone);
    CHECK(f.store("another", "") == ErrorCode::kConflict);
    const std::string version = f.load().version;
    CHECK(f.store("two", version) == kDone);
    CHECK(f.store("three", version) == ErrorCode::kConflict);
    CHECK(f.load().text == "two");
  }

  TEST_CASE("a deleted record is not replaced under its old version") {
    Fixture f;
    CHECK(f.store("one", "") == kDone);
    const std::string version = f.load().version;
    REQUIRE(f.cluster.memory.remove(k::kConfigMaps, "osm-system", "osm-root-rotation", {}).ok());
    CHECK(f.store("two", version) == ErrorCode::kConflict);
    CHECK(f.load().version.empty());
  }

  TEST_CASE("an emptied record counts as none and is replaced") {
    Fixture f;
    CHECK(f.store("one", "") == kDone);
    f.cluster.memory.edit(k::kConfigMaps, "osm-system", "osm-root-rotation",
                          [](boost::json::object& object) { object.erase("data"); });
    CHECK(f.load().text.empty());
    CHECK(f.store("two", f.load().version) == kDone);
    CHECK(f.load().text == "two");
  }

  TEST_CASE("a CA whose Secret was deleted is not made anew while the record trusts it") {
    Fixture f;
    const std::string record =
        R"json({"roots": [{"name": "(own)", "state": "signing", "bundle": "PEM"}]})json";
    REQUIRE(f.store(record, "") == kDone);
    const auto secret = k::make_ca_store(f.cluster, "osm-system", "osm-ca-bundle");
    const auto load = [&] {
      return certificate::load_or_create_ca({.store = *secret,
                                             .trust_domain = TrustDomain("cluster.local"),
                                             .clock = f.clock,
                                             .known = known_ca(*f.record, kOwnRoot).value()});
    };
    const auto lost = load();
    REQUIRE_FALSE(lost.ok());
    CHECK(lost.error().code == ErrorCode::kNotFound);
    CHECK(lost.error().message.find("Secret osm-system/osm-ca-bundle is gone") !=
          std::string::npos);
    CHECK(lost.error().message.find("delete ConfigMap osm-system/osm-root-rotation") !=
          std::string::npos);
    CHECK_FALSE(secret->load().value());
    REQUIRE(f.cluster.memory.remove(k::kConfigMaps, "osm-system", "osm-root-rotation", {}).ok());
    CHECK(load().ok());
    CHECK(secret->load().value());
  }

  TEST_CASE("a denial names the rule that is missing") {
    Fixture f;
    f.fail(ErrorCode::kPermissionDenied);
    for (const Error& error : {f.record->load().error(), f.record->store({"a", ""}).error(),
                               f.record->store({"a", "1"}).error()}) {
      CHECK(error.code == ErrorCode::kPermissionDenied);
      CHECK(error.message.find("ConfigMap osm-system/osm-root-rotation") != std::string::npos);
      CHECK(error.message.find("get and patch the one named") != std::string::npos);
    }
  }

  TEST_CASE("a server that is away is unavailable, one that refuses is a storage that fails") {
    Fixture f;
    f.fail(ErrorCode::kDeadlineExceeded);
    CHECK(f.record->load().error().code == ErrorCode::kUnavailable);
    CHECK(f.store("a", "") == ErrorCode::kUnavailable);
    f.fail(ErrorCode::kTooLarge);
    CHECK(f.store("a", "1") == ErrorCode::kStorage);
  }
}

}  // namespace
