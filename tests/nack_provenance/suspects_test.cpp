// The objects that shape a proxy's resources come first in a search.
#include "nack_provenance/suspects.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "catalog/mesh_builder.hpp"
#include "catalog/mesh_values.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

using namespace osm;
using namespace osm::catalog::values;
using nack_provenance::order_by_likelihood;

namespace {

using Keys = std::vector<ObjectKey>;
using Sizes = std::vector<std::size_t>;

constexpr const char* kBuyer = "00000000-0000-4000-8000-000000000001";

// "buyer" may call "store" and nothing else; twenty other Services have objects of their own.
struct Shop {
  Shop() {
    spec.put_namespace(kNs);
    add_server("store", "10.1.0.1");
    spec.put(target("buyer", "store", {"buyer"}, {http_rule("store", {"m"})}));
    provider.put_workload(workload("buyer", kBuyer, "buyer", "10.1.1.1", {}));
    for (int i = 0; i < 20; ++i) {
      const std::string name = "other" + std::to_string(i);
      add_server(name, "10.1.2." + std::to_string(i + 1));
      spec.put(target(name, name, {"stranger"}, {http_rule(name, {"m"})}));
      put_policies(name, "stranger");
    }
    put_policies("store", "buyer");
  }

  void add_server(const std::string& name, const std::string& address) {
    spec.put(service(name, address));
    spec.put(routes(name, {"m"}));
    provider.set_endpoints(service_name(name), {served_at("10.2" + address.substr(4), name)});
  }
  // One policy of each kind, of this Service and this client.
  void put_policies(const std::string& server, const std::string& client) {
    const Retry retry{identity(client), {service_name(server)}, {"5xx", 1, {}, {}}};
    spec.put(Policy({kinds::kRetry, kNs, server}, retry));
    UpstreamTrafficSetting setting;
    setting.service = service_name(server);
    spec.put(Policy({kinds::kUpstreamTrafficSetting, kNs, server}, setting));
    IngressBackend ingress;
    ingress.backends = {{service_name(server), port(8080), {}}};
    spec.put(Policy({kinds::kIngressBackend, kNs, server}, ingress));
    Egress egress;
    egress.sources = {identity(client)};
    egress.route_groups = {server + "-outside"};
    spec.put(Policy({kinds::kEgress, kNs, server}, egress));
    spec.put(routes(server + "-outside", {"m"}));
  }

  Sizes order(const std::string& message, Keys& candidates) {
    catalog::MeshBuilder builder(spec, {{&provider}}, {&provider}, TrustDomain("cluster.local"));
    const auto mesh = builder.build();
    REQUIRE(mesh);
    if (candidates.empty()) candidates = model::new_in({}, *mesh->objects);
    return order_by_likelihood({message, found_elsewhere, fresh}, *mesh, {kNs, ProxyId(kBuyer)},
                               candidates);
  }

  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider provider{"memory"};
  std::map<ObjectKey, std::string> found_elsewhere;
  std::set<ObjectKey> fresh;
};

Keys last(const Keys& candidates, std::size_t size) {
  return {candidates.end() - static_cast<std::ptrdiff_t>(size), candidates.end()};
}

}  // namespace

TEST_SUITE("nack_provenance::order_by_likelihood") {
  TEST_CASE("objects that shape the proxy's resources come last, of every kind") {
    Shop shop;
    Keys candidates;
    const Sizes sizes = shop.order("something else", candidates);
    REQUIRE(sizes.size() == 1);
    const Keys here = last(candidates, sizes.front());
    const std::set<ObjectKey> expected{{kinds::kService, kNs, "store"},
                                       {kinds::kHttpRouteGroup, kNs, "store"},
                                       {kinds::kHttpRouteGroup, kNs, "store-outside"},
                                       {kinds::kTrafficTarget, kNs, "buyer"},
                                       {kinds::kRetry, kNs, "store"},
                                       {kinds::kUpstreamTrafficSetting, kNs, "store"},
                                       {kinds::kIngressBackend, kNs, "store"},
                                       {kinds::kEgress, kNs, "store"}};
    CHECK(std::set<ObjectKey>(here.begin(), here.end()) == expected);
    CHECK(candidates.size() > 150);
    // An Egress and what it names are found apart in the usual order; the other policies add to
    // Services and targets, which come before them.
    for (const ObjectKey& key : last(candidates, 3)) CHECK_FALSE(key.is(kinds::kHttpRouteGroup));
    CHECK_FALSE(candidates.back().is(kinds::kEgress));
  }

  TEST_CASE("objects of the Service that the message names come after the proxy's others") {
    Shop shop;
    shop.add_server("stock", "10.1.0.9");
    shop.spec.put(target("stock", "stock", {"buyer"}, {http_rule("stock", {"m"})}));
    Keys candidates;
    const Sizes sizes =
        shop.order("Error adding/updating listener(s) outbound_shop/stock|80: no", candidates);
    REQUIRE(sizes.size() == 3);
    CHECK(last(candidates, 1) == Keys{{kinds::kTrafficTarget, kNs, "stock"}});
    const Keys near = last(candidates, sizes[1]);
    for (const ObjectKey& key : {ObjectKey{kinds::kService, kNs, "stock"},
                                 ObjectKey{kinds::kHttpRouteGroup, kNs, "stock"}})
      CHECK(std::find(near.begin(), near.end(), key) != near.end());
    const ObjectKey elsewhere{kinds::kUpstreamTrafficSetting, kNs, "store"};
    CHECK(std::find(near.begin(), near.end(), elsewhere) == near.end());
    CHECK(sizes[2] > sizes[1]);
  }

  TEST_CASE("the candidate whose text a proxy repeats comes last, the others keep their order") {
    Shop shop;
    smi::HttpRouteGroup odd = routes("odd", {"x"});
    odd.matches.front().path_regex = "/a{1,200}";
    shop.spec.put(odd);
    Keys before, candidates;
    const Sizes usual = shop.order("something else", before);
    Sizes expected{1};
    expected.insert(expected.end(), usual.begin(), usual.end());
    for (std::size_t& size : expected) size += &size != expected.data();
    CHECK(shop.order("regex '/a{1,200}' is too costly", candidates) == expected);
    CHECK(candidates.back() == ObjectKey{kinds::kHttpRouteGroup, kNs, "odd"});
    std::erase(before, candidates.back());
    candidates.pop_back();
    CHECK(candidates == before);
  }

  TEST_CASE("what other replicas found comes last, before what a proxy repeats") {
    Shop shop;
    shop.found_elsewhere = {{{kinds::kRetry, kNs, "other1"}, "osm-2: shop/buyer"},
                            {{kinds::kRetry, kNs, "gone"}, ""}};
    Keys candidates;
    CHECK(shop.order("outbound_shop/store|80", candidates).front() == 1);
    CHECK(candidates.back() == ObjectKey{kinds::kRetry, kNs, "other1"});
  }

  TEST_CASE("what is new to the proxy and shapes it comes last, what does not shape it does not") {
    Shop shop;
    shop.fresh = {{kinds::kHttpRouteGroup, kNs, "store"}, {kinds::kHttpRouteGroup, kNs, "other1"}};
    Keys candidates;
    CHECK(shop.order("something else", candidates).front() == 1);
    CHECK(candidates.back() == ObjectKey{kinds::kHttpRouteGroup, kNs, "store"});
  }

  TEST_CASE("a Service that a hint names comes with the objects that shape it, not alone") {
    Shop shop;
    shop.add_server("stock", "10.1.0.9");
    shop.spec.put(target("stock", "stock", {"buyer"}, {http_rule("stock", {"m"})}));
    shop.found_elsewhere = {{{kinds::kService, kNs, "stock"}, "osm-2: shop/buyer"}};
    Keys candidates;
    const Sizes sizes = shop.order("something else", candidates);
    REQUIRE(sizes.size() == 2);
    const Keys near = last(candidates, sizes.front());
    for (const GroupKind& kind : {kinds::kService, kinds::kTrafficTarget, kinds::kHttpRouteGroup})
      CHECK(std::find(near.begin(), near.end(), ObjectKey{kind, kNs, "stock"}) != near.end());
    CHECK(std::find(near.begin(), near.end(), ObjectKey{kinds::kService, kNs, "store"}) ==
          near.end());
  }

  TEST_CASE("a proxy that is gone has no likely candidates") {
    Shop shop;
    Keys candidates{{kinds::kRetry, kNs, "store"}, {kinds::kRetry, kNs, "other1"}};
    const Keys before = candidates;
    CHECK(shop.order("", candidates) == Sizes{1});
    CHECK(candidates == Keys{before[1], before[0]});
    shop.provider.remove_workload({kNs, "buyer"});
    candidates = before;
    CHECK(shop.order("", candidates).empty());
    CHECK(candidates == before);
  }
}
