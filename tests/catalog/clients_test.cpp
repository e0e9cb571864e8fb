// A Retry concerns its source alone, in both modes; one without effect is reported.
#include <doctest/doctest.h>

#include <chrono>

#include "built_mesh.hpp"
#include "mesh_values.hpp"
#include "osm/values/retry.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;
using namespace std::chrono_literals;

namespace {

// A store, and a Service that speaks TCP only. MeshConfig obeys Retries.
struct Shop : BuiltMesh {
  explicit Shop(bool permissive = false) {
    MeshConfig config;
    config.proxy.retries = true;
    config.proxy.permissive = permissive;
    spec.set_mesh_config(config);
    spec.put_namespace(kNs);
    for (const char* name : {"buyer", "auditor"}) spec.put_service_account(account(name));
    spec.put(service("store", "10.1.0.1"));
    spec.put(service("ledger", "10.1.0.2", {service_port("raw", 99, 99, Protocol::kTcp)}));
    next();
  }
  const model::MeshSnapshot& put(const std::string& name, const std::string& source,
                                 const std::vector<std::string>& destinations,
                                 std::uint32_t count) {
    Retry retry{identity(source), {}, {"5xx", count, 1s, 25ms}};
    for (const std::string& one : destinations) retry.destinations.push_back(service_name(one));
    spec.put(Policy({kinds::kRetry, kNs, name}, retry));
    return next();
  }
  // The number of retries; -1: none is set.
  int count(const std::string& source, const std::string& service) const {
    const auto client = last->clients.find(identity(source));
    if (!client || !client->retries.contains(service_name(service))) return -1;
    return static_cast<int>(client->retries.at(service_name(service)).policy.num_retries);
  }
};

}  // namespace

TEST_SUITE("catalog.clients") {
  TEST_CASE("a Retry concerns its source alone, in both modes, without any TrafficTarget") {
    for (const bool permissive : {false, true}) {
      CAPTURE(permissive);
      Shop shop(permissive);
      const auto& added = shop.put("again", "buyer", {"store"}, 3);
      CHECK(added.problems->empty());
      CHECK(shop.count("buyer", "store") == 3);
      CHECK(added.changes.identities == std::set{identity("buyer")});
      CHECK_FALSE(added.changes.everything);
      const std::string hash = added.hash;
      CHECK(shop.put("again", "buyer", {"store"}, 4).hash != hash);
      CHECK(shop.count("buyer", "store") == 4);
      shop.spec.remove({kinds::kRetry, kNs, "again"});
      CHECK(shop.next().changes.identities == std::set{identity("buyer")});
      CHECK(shop.last->clients.empty());
    }
  }

  TEST_CASE("a Retry that moves to another source concerns both") {
    Shop shop;
    shop.put("again", "buyer", {"store"}, 3);
    CHECK(shop.put("again", "auditor", {"store"}, 3).changes.identities ==
          std::set{identity("auditor"), identity("buyer")});
  }

  TEST_CASE("of several Retries with one source and destination the first by name counts") {
    Shop shop;
    shop.put("b", "buyer", {"store", "ledger"}, 7);
    const auto& after = shop.put("a", "buyer", {"store"}, 1);
    CHECK(shop.count("buyer", "store") == 1);
    CHECK(shop.count("buyer", "ledger") == 7);
    const auto duplicate =
        std::find_if(after.problems->begin(), after.problems->end(),
                     [](const Problem& one) { return one.code == ErrorCode::kDuplicateObject; });
    REQUIRE(duplicate != after.problems->end());
    CHECK(duplicate->object == ObjectKey{kinds::kRetry, kNs, "b"});
    CHECK(duplicate->cause.find("Retry shop/a already says") != std::string::npos);
  }

  TEST_CASE("a missing Service and one without HTTP are reported until they change") {
    Shop shop;
    const auto& after = shop.put("again", "buyer", {"nothing", "ledger"}, 3);
    REQUIRE(after.problems->size() == 2);
    CHECK(after.problems->at(0).code == ErrorCode::kUnusedField);
    CHECK(after.problems->at(0).cause.find("Service shop/ledger has no HTTP port") == 0);
    CHECK(after.problems->at(1).code == ErrorCode::kDanglingReference);
    CHECK(after.problems->at(1).cause.find("Service shop/nothing is not there") == 0);
    const auto origin = [&](const char* service) {
      return shop.last->clients.find(identity("buyer"))->retries.at(service_name(service)).origin;
    };
    const ObjectKey again{kinds::kRetry, kNs, "again"};
    CHECK(origin("nothing") == model::Origin{again, "spec.retryPolicy", false});
    CHECK(origin("ledger") == model::Origin{again, "spec.retryPolicy", false});
    shop.spec.put(service("nothing", "10.1.0.3"));
    CHECK(shop.next().problems->size() == 1);
    CHECK(shop.count("buyer", "nothing") == 3);
    CHECK(origin("nothing") == model::Origin{again, "spec.retryPolicy"});
    CHECK_FALSE(origin("ledger").in_force);
  }

  TEST_CASE("without the feature flag a Retry has no effect, and a notice says so") {
    Shop shop;
    shop.put("again", "buyer", {"store"}, 3);
    shop.spec.set_mesh_config({});
    const auto& off = shop.next();
    CHECK(off.clients.empty());
    REQUIRE(off.problems->size() == 1);
    CHECK(off.problems->front().code == ErrorCode::kUnusedField);
    CHECK(off.problems->front().cause.find("enableRetryPolicy") != std::string::npos);
  }
}
