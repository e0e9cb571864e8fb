// Meshes of a few namespaces put together at random, through the real catalog: services, machines,
// splits, routes, targets and policies that collide and refer to each other often, in both modes.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "catalog/mesh_builder.hpp"
#include "catalog/random_policies.hpp"
#include "lib/run.hpp"
#include "model/names.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "translate/translate.hpp"

namespace osm::security_test {

using SnapshotPtr = std::shared_ptr<const model::MeshSnapshot>;

class RandomMesh {
 public:
  static constexpr int kNamespaces = 4;
  static constexpr int kNames = 3;  // of each kind in a namespace

  explicit RandomMesh(std::uint64_t seed) : random_(seed) {
    subscriptions_.push_back(
        provider.subscribe([this](const auto& names) { builder_.endpoints_changed(names); }));
    subscriptions_.push_back(provider.subscribe_workloads(
        [this](const auto& names) { builder_.workloads_changed(names); }));
    for (int ns = 0; ns < kNamespaces; ++ns) spec.put_namespace(namespace_name(ns));
    for (int i = 0; i < 40; ++i) change(namespace_name(pick(kNamespaces)));
  }

  static std::string namespace_name(int index) { return "n" + std::to_string(index); }
  static std::vector<std::string> namespaces() {
    std::vector<std::string> out;
    for (int i = 0; i < kNamespaces; ++i) out.push_back(namespace_name(i));
    return out;
  }

  int pick(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }

  // Writes or removes one object, or moves one machine, of namespace `ns`. Result: what.
  std::string change(const std::string& ns) {
    const std::string name = "x" + std::to_string(pick(kNames));
    const GroupKind& policy = osm::testing::kRandomPolicies[pick(5)];
    switch (pick(13)) {
      case 0:
        spec.remove({kinds::kService, ns, name});
        return "no Service " + name;
      case 1:
      case 2:
        spec.put(any_service(ns, name));
        return "Service " + name;
      case 3:
        provider.set_endpoints({ns, name}, any_endpoints(ns));
        return "endpoints of " + name;
      case 4:
        provider.put_workload(any_workload(ns, name));
        return "machine " + name;
      case 5:
        spec.put(any_routes(ns, name));
        return "HTTPRouteGroup " + name;
      case 6:
        spec.put(any_split(ns, name));
        return "TrafficSplit " + name;
      case 7:
        spec.remove({pick(2) ? kinds::kTrafficSplit : kinds::kTrafficTarget, ns, name});
        return "no split or target " + name;
      case 8:
      case 9:
        spec.put(osm::testing::random_policy(
            policy, ns, name, [this](int below) { return pick(below); },
            [this] { return any_account(); }, [this] { return any_name(); }));
        return std::string(policy.kind) + ' ' + name;
      case 10:
        spec.remove({policy, ns, name});
        return "no " + std::string(policy.kind) + ' ' + name;
      default:
        spec.put(any_target(ns, name));
        return "TrafficTarget " + name;
    }
  }

  void set_mode(bool permissive, bool egress) {
    MeshConfig config;
    config.proxy.permissive = permissive;
    config.proxy.egress = egress;
    config.proxy.retries = true;
    spec.set_mesh_config(config);
  }

  // The mesh as it is now.
  SnapshotPtr snapshot() {
    if (SnapshotPtr next = builder_.build()) last_ = std::move(next);
    REQUIRE(last_);
    return last_;
  }

  // Classes of every machine, and of every account without one.
  static std::set<translate::ProxyClass> classes(const model::MeshSnapshot& mesh) {
    std::set<translate::ProxyClass> out;
    for (const auto& entry : mesh.workloads) out.insert(translate::class_of(mesh, entry->workload));
    for (const std::string& ns : namespaces())
      for (int i = 0; i < kNames; ++i) out.insert(translate::ProxyClass{{ns, account(i)}, {}});
    return out;
  }

  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider provider{"vm"};

 private:
  static std::string account(int index) { return "a" + std::to_string(index); }
  static int index_of(const std::string& ns) { return ns.back() - '0'; }
  std::string any_account() { return account(pick(kNames)); }
  std::string any_name() { return "x" + std::to_string(pick(kNames)); }
  Port any_port() { return Port(static_cast<std::uint16_t>(8080 + pick(2))); }

  // Addresses are the namespace's own: what happens to those that are claimed twice has tests of
  // its own.
  Service any_service(const std::string& ns, const std::string& name) {
    Service out;
    out.name = {ns, name};
    out.headless = pick(4) == 0;
    if (!out.headless)
      out.cluster_ip = "10.96." + std::to_string(index_of(ns)) + '.' + name.substr(1);
    out.selector = {{"app", name}};
    static constexpr Protocol kProtocols[] = {Protocol::kHttp, Protocol::kGrpc, Protocol::kTcp};
    out.ports.push_back({"p", Port{80}, any_port(), kProtocols[pick(3)]});
    if (pick(3) == 0) out.ports.push_back({"q", Port{81}, any_port(), kProtocols[pick(3)]});
    return out;
  }

  std::string any_address(const std::string& ns) {
    return "10.1." + std::to_string(index_of(ns)) + '.' + std::to_string(1 + pick(4));
  }

  std::vector<Endpoint> any_endpoints(const std::string& ns) {
    std::vector<Endpoint> out(static_cast<std::size_t>(pick(4)));
    for (Endpoint& endpoint : out) {
      endpoint.address = any_address(ns);
      endpoint.port = any_port();
      endpoint.service_port = pick(2) ? "p" : "q";
      endpoint.identity = {ns, any_account()};
      endpoint.healthy = pick(5) != 0;
    }
    return out;
  }

  Workload any_workload(const std::string& ns, const std::string& name) {
    Workload out;
    out.name = {ns, name};
    out.account = {ns, any_account()};
    out.proxy_id = model::derived_proxy_id(TrustDomain("cluster.local"), out.name);
    out.address = any_address(ns);
    for (int i = 0; i < kNames; ++i)
      if (pick(2)) out.services.push_back({ns, "x" + std::to_string(i)});
    return out;
  }

  smi::HttpRouteGroup any_routes(const std::string& ns, const std::string& name) {
    static const std::vector<std::string> kPaths{".*", "/a/.*", "/b", "/(c|d)/[0-9]+"};
    smi::HttpRouteGroup out{{ns, name}, {}};
    for (int i = 0; i <= pick(2); ++i) {
      smi::HttpMatch match;
      match.name = "m" + std::to_string(i);
      match.path_regex = kPaths[static_cast<std::size_t>(pick(4))];
      if (pick(2)) match.methods = {"GET"};
      if (pick(3) == 0) match.headers = {{"x-team", "blue"}};
      out.matches.push_back(std::move(match));
    }
    return out;
  }

  smi::TrafficSplit any_split(const std::string& ns, const std::string& name) {
    smi::TrafficSplit out;
    out.name = {ns, name};
    out.service = {ns, any_name()};
    out.backends = {{"x0", 1 + pick(9)}, {"x1", pick(9)}};
    return out;
  }

  smi::TrafficTarget any_target(const std::string& ns, const std::string& name) {
    smi::TrafficTarget out;
    out.name = {ns, name};
    out.destination = {ns, any_account()};
    std::set<ServiceAccount> sources;
    for (int i = 0; i <= pick(3); ++i)
      sources.insert({namespace_name(pick(kNamespaces)), any_account()});
    out.sources.assign(sources.begin(), sources.end());
    smi::TrafficTargetRule rule;
    rule.kind = smi::RouteKind::kHttpRouteGroup;
    rule.name = any_name();
    rule.matches = {"m0", "m1"};
    out.rules.push_back(rule);
    if (pick(2)) {
      rule.kind = smi::RouteKind::kTcpRoute;
      rule.matches.clear();
      spec.put(smi::TcpRoute{{ns, rule.name}, {}});
      out.rules.push_back(rule);
    }
    return out;
  }

  std::mt19937_64 random_;
  catalog::MeshBuilder builder_{spec, {{&provider}}, {&provider}, TrustDomain("cluster.local")};
  std::vector<Subscription> subscriptions_;
  SnapshotPtr last_;
};

}  // namespace osm::security_test
