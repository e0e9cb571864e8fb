// A namespace's objects concern its own workloads and the way to its own services, nothing else
// (docs/security.md, threats 16 and 17).
#include <doctest/doctest.h>

#include "security/atoms.hpp"

using namespace osm;
using namespace osm::security_test;

namespace {

using AtomsByClass = std::map<translate::ProxyClass, Atoms>;

AtomsByClass everything(const model::MeshSnapshot& mesh) {
  AtomsByClass out;
  for (const auto& proxy_class : RandomMesh::classes(mesh))
    out[proxy_class] = atoms_of(mesh, proxy_class);
  return out;
}

}  // namespace

TEST_SUITE("security.namespaces") {
  TEST_CASE("an object changes only its own namespace's workloads and the ways to its services") {
    RandomMesh mesh(osm::testing::seed());
    int own = 0, foreign = 0;
    AtomsByClass after;
    for (int round = 0; round < 120; ++round) {
      if (round % 30 == 0) {
        mesh.set_mode(round % 60 == 30, round >= 60);
        after = everything(*mesh.snapshot());
      }
      const AtomsByClass before = std::move(after);
      const std::string ns = RandomMesh::namespace_name(mesh.pick(RandomMesh::kNamespaces));
      const std::string what = mesh.change(ns);
      after = everything(*mesh.snapshot());
      CAPTURE(round);
      CAPTURE(ns);
      CAPTURE(what);
      for (const auto& [proxy_class, atoms] : after) {
        const auto at = before.find(proxy_class);
        if (proxy_class.identity.ns == ns) {
          own += at == before.end() || at->second != atoms;
          continue;
        }
        REQUIRE(at != before.end());
        const auto differing = difference(at->second, atoms);
        foreign += !differing.empty();
        for (const std::string& atom : differing) {
          CAPTURE(proxy_class.identity.str());
          CAPTURE(atom);
          CHECK(leads_to(atom, ns));
        }
      }
    }
    // The rounds did something worth looking at, on both sides of the boundary.
    CHECK(own > 30);
    CHECK(foreign > 30);
  }

  TEST_CASE("the grants of a removed object end with the next snapshot") {
    RandomMesh mesh(osm::testing::seed() + 1);
    int granted = 0;
    // Rounds whose permission changes something are few with some seeds.
    for (int round = 0; round < 40 || (granted <= 5 && round < 1000); ++round) {
      const std::string ns = RandomMesh::namespace_name(mesh.pick(RandomMesh::kNamespaces));
      mesh.change(ns);
      mesh.spec.remove({kinds::kTrafficTarget, ns, "grant"});
      const AtomsByClass before = everything(*mesh.snapshot());
      smi::TrafficTarget target;
      target.name = {ns, "grant"};
      target.destination = {ns, "a" + std::to_string(mesh.pick(RandomMesh::kNames))};
      for (const std::string& source : RandomMesh::namespaces())
        target.sources.push_back({source, "a1"});
      mesh.spec.put(smi::TcpRoute{{ns, "any"}, {}});
      target.rules = {{smi::RouteKind::kTcpRoute, "any", {}}};
      mesh.spec.put(target);
      granted += everything(*mesh.snapshot()) != before;
      mesh.spec.remove({kinds::kTrafficTarget, ns, "grant"});
      CHECK(everything(*mesh.snapshot()) == before);
    }
    CHECK(granted > 5);
  }

  TEST_CASE("a machine's free-text address never takes a cluster IP from another Service") {
    osm::testing::MemoryMeshSpec spec;
    osm::testing::MemoryEndpointsProvider provider("vm");
    Service headless;
    headless.name = {"a", "thief"};
    headless.headless = true;
    headless.ports.push_back({"", Port{80}, Port{80}, Protocol::kHttp});
    Service bank;
    bank.name = {"b", "bank"};
    bank.cluster_ip = "10.96.0.1";
    bank.ports = headless.ports;
    headless.selector = bank.selector = {{"app", "any"}};
    spec.put(headless);
    spec.put(bank);
    Endpoint endpoint;
    endpoint.address = bank.cluster_ip;
    endpoint.port = Port{80};
    endpoint.identity = {"a", "thief"};
    provider.set_endpoints(headless.name, {endpoint});
    catalog::MeshBuilder builder(spec, {{&provider}}, {}, TrustDomain("cluster.local"));
    const SnapshotPtr mesh = builder.build();
    REQUIRE(mesh);
    CHECK(mesh->services.find(bank.name)->ports.size() == 1);
    CHECK(mesh->services.find(headless.name)->addresses.empty());
    REQUIRE(mesh->problems->size() == 1);
    CHECK(mesh->problems->front().object.name == "thief");
  }
}
