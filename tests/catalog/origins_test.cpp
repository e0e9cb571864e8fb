// Entries name the objects that made them, and the hash leaves these names out.
#include <doctest/doctest.h>

#include "built_mesh.hpp"
#include "mesh_values.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/telemetry.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;
using model::Origin;

namespace {

// A store that may be split to a stock.
struct Shop : BuiltMesh {
  Shop() {
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1"));
    spec.put(service("stock", "10.1.0.2"));
    vm.set_endpoints(service_name("store"), {served_at("10.0.0.1", "store")});
    vm.set_endpoints(service_name("stock"), {served_at("10.0.0.2", "stock")});
    next();
  }
  std::shared_ptr<const model::ServiceEntry> entry(const std::string& name = "store") const {
    return last->services.find(service_name(name));
  }
  void order(const char* name) {
    spec.put(Policy({kinds::kServiceProvider, kNs, name},
                    ServiceProvider{.service = service_name("store"), .providers = {{"vm", 5}}}));
  }
};

}  // namespace

TEST_SUITE("catalog.origins") {
  TEST_CASE("a renamed split keeps the hash and the digests") {
    Shop shop;
    shop.spec.put(split("a", "store", {{"stock", 1}}));
    shop.next();
    const auto before = shop.last;
    shop.spec.remove({kinds::kTrafficSplit, kNs, "a"});
    shop.spec.put(split("b", "store", {{"stock", 1}}));
    const auto& renamed = shop.next();
    CHECK(shop.entry()->split_origin == Origin{{kinds::kTrafficSplit, kNs, "b"}, "spec.backends"});
    CHECK(renamed.hash == before->hash);
    CHECK(*renamed.digests == *before->digests);
    CHECK(renamed.changes.services == std::set{service_name("store")});
    CHECK(renamed.changes.identities.empty());
    CHECK_FALSE(renamed.changes.everything);
    shop.spec.put(split("b", "store", {{"stock", 2}}));
    CHECK(shop.next().hash != before->hash);
  }

  TEST_CASE("a Service names the ServiceProvider that orders its endpoints") {
    Shop shop;
    CHECK(shop.entry()->order_origin == Origin());
    shop.order("b");
    shop.next();
    CHECK(shop.entry()->order_origin ==
          Origin{{kinds::kServiceProvider, kNs, "b"}, "spec.providers"});
    shop.order("a");  // the same order
    const auto& first = shop.next();
    CHECK(shop.entry()->order_origin.object.name == "a");
    CHECK(first.changes.services == std::set{service_name("store")});
    CHECK(first.changes.endpoints.empty());
    for (const char* name : {"a", "b"}) shop.spec.remove({kinds::kServiceProvider, kNs, name});
    shop.next();
    CHECK(shop.entry()->order_origin == Origin());
  }

  TEST_CASE("a Service that lost its only port is not in force") {
    Shop shop;
    CHECK(shop.entry()->origin == Origin{{kinds::kService, kNs, "store"}});
    shop.spec.put(service("a-store", "10.1.0.1"));  // the first by name has the address
    shop.next();
    CHECK(shop.entry()->origin == Origin{{kinds::kService, kNs, "store"}, "", false});
    CHECK(shop.entry("a-store")->origin.in_force);
  }

  TEST_CASE("an Egress is not in force while egress of the whole mesh is on") {
    Shop shop;
    Egress out;
    out.sources = {identity("store")};
    out.ports = {{port(443), EgressProtocol::kTcp}};
    shop.spec.put(Policy({kinds::kEgress, kNs, "out"}, out));
    const auto origin = [&] {
      return shop.next().clients.find(identity("store"))->egress.at(0).origin;
    };
    const ObjectKey key{kinds::kEgress, kNs, "out"};
    CHECK(origin() == Origin{key, "spec"});
    MeshConfig config;
    config.proxy.egress = true;
    shop.spec.set_mesh_config(config);
    CHECK(origin() == Origin{key, "spec", false});
  }

  TEST_CASE("a TelemetryEntry names its Telemetry") {
    Shop shop;
    const ObjectKey key{kinds::kTelemetry, kNs, "log"};
    shop.spec.put(Policy(key, Telemetry()));
    CHECK(shop.next().telemetries.find({kNs, "log"})->origin == Origin{key});
  }
}
