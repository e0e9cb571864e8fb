// Differences of two specifications are told with all their keys, and a mixture of two has the
// objects of each that it names.
#include "model/spec_tables.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace osm;

namespace {

const ObjectKey kTarget{kinds::kTrafficTarget, "shop", "buyer"};
const ObjectKey kSplit{kinds::kTrafficSplit, "shop", "half"};
const ObjectKey kRoutes{kinds::kHttpRouteGroup, "shop", "routes"};
const ObjectKey kRetry{kinds::kRetry, "shop", "again"};

template <class T>
void put(Table<T>& table, T value) {
  table = table.with(std::make_shared<const T>(std::move(value)));
}

Service service(const std::string& name, const std::string& address) {
  Service out;
  out.name = {"shop", name};
  out.cluster_ip = address;
  return out;
}

// One object of each kind, and two Services.
SpecSnapshot whole() {
  SpecSnapshot out;
  out.config_key = {kinds::kMeshConfig, "osm-system", "osm-mesh-config"};
  out.namespaces = {"shop"};
  put(out.services, service("api", "10.1.0.1"));
  put(out.services, service("db", "10.1.0.2"));
  put(out.accounts, ServiceAccount{"shop", "api"});
  put(out.targets, smi::TrafficTarget{{"shop", "buyer"}, {"shop", "api"}, {{"shop", "web"}}, {}});
  put(out.splits, smi::TrafficSplit{{"shop", "half"}, {"shop", "api"}, {}});
  put(out.http_routes, smi::HttpRouteGroup{{"shop", "routes"}, {}});
  put(out.tcp_routes, smi::TcpRoute{{"shop", "ports"}, {}});
  put(out.policies, Policy(kRetry, 1));
  MeshRootCertificate root;
  root.name = "first";
  put(out.roots, root);
  return out;
}

TEST_SUITE("model::spec_tables") {
  TEST_CASE("every object of every kind that differs is told, also a removed one") {
    const std::vector<ObjectKey> all{kRoutes,
                                     {kinds::kMeshRootCertificate, "osm-system", "first"},
                                     {kinds::kNamespace, "", "shop"},
                                     kRetry,
                                     {kinds::kService, "shop", "api"},
                                     {kinds::kService, "shop", "db"},
                                     {kinds::kServiceAccount, "shop", "api"},
                                     {kinds::kTcpRoute, "shop", "ports"},
                                     kSplit,
                                     kTarget};
    SpecSnapshot none;
    none.config_key = whole().config_key;
    CHECK(model::differing(none, whole()) == all);
    CHECK(model::differing(whole(), none) == all);
    CHECK(model::differing(whole(), whole()).empty());
    for (const auto& [key, present] : model::differences(none, whole())) CHECK(present);
    for (const auto& [key, present] : model::differences(whole(), none)) CHECK_FALSE(present);
    SpecSnapshot other = whole();
    put(other.services, service("db", "10.1.0.9"));
    MeshConfig config;
    config.proxy.permissive = true;
    other.config = std::make_shared<const MeshConfig>(config);
    CHECK(model::differing(whole(), other) ==
          std::vector<ObjectKey>{other.config_key, {kinds::kService, "shop", "db"}});
  }

  TEST_CASE("new objects are those that shape proxies, with what refers to others first") {
    const std::vector<ObjectKey> all{kRetry,
                                     {kinds::kService, "shop", "api"},
                                     {kinds::kService, "shop", "db"},
                                     kTarget,
                                     kSplit,
                                     {kinds::kTcpRoute, "shop", "ports"},
                                     kRoutes};
    CHECK(model::new_in({}, whole()) == all);
    CHECK(model::new_in(whole(), {}).empty());
  }

  TEST_CASE("a mixture has the named objects of the first, and the tables of the second") {
    SpecSnapshot before = whole();
    put(before.services, service("db", "10.1.0.9"));
    before.splits = {};
    put(before.targets, smi::TrafficTarget{{"shop", "former"}, {"shop", "db"}, {}, {}});
    const SpecSnapshot after = whole();
    const SpecSnapshot mix = model::mixed(
        before, after,
        {{kinds::kService, "shop", "db"}, kSplit, {kinds::kTrafficTarget, "shop", "former"}});
    CHECK(mix.services.find({"shop", "db"}) == before.services.find({"shop", "db"}));
    CHECK(mix.services.find({"shop", "api"}) == after.services.find({"shop", "api"}));
    CHECK(mix.splits.empty());
    CHECK(mix.targets.size() == 2);
    CHECK(&mix.http_routes.list() == &after.http_routes.list());
    CHECK(&mix.policies.list() == &after.policies.list());
  }

  TEST_CASE("a copy of a specification shares its tables") {
    const SpecSnapshot one = whole();
    const SpecSnapshot copy = one;
    CHECK(&copy.services.list() == &one.services.list());
    CHECK(copy.config == one.config);
  }
}

}  // namespace
