// Equal meshes have equal hashes, and every difference shows.
#include "catalog/mesh_hash.hpp"

#include <doctest/doctest.h>

#include <set>

#include "mesh_values.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

template <class V>
std::shared_ptr<const V> shared(V value) {
  return std::make_shared<const V>(std::move(value));
}

model::ServiceEntry entry(const std::string& name, const std::string& ip) {
  model::ServiceEntry out;
  out.name = service_name(name);
  out.cluster_ip = ip;
  return out;
}

model::MeshSnapshot snapshot(std::vector<std::shared_ptr<const model::ServiceEntry>> services) {
  model::MeshSnapshot out;
  out.services = Table<model::ServiceEntry>(std::move(services));
  return out;
}

}  // namespace

TEST_SUITE("catalog::MeshHash") {
  TEST_CASE("equal content has an equal hash, whatever came before") {
    MeshHash one, other;
    const auto a = shared(entry("a", "10.0.0.1")), b = shared(entry("b", "10.0.0.2"));
    one.update(snapshot({b}));
    one.update(snapshot({a, b, shared(entry("c", "10.0.0.3"))}));
    one.update(snapshot({shared(entry("a", "10.0.0.9")), b}));
    const std::string hash = one.update(snapshot({a, b}));
    CHECK(hash.size() == 16);
    CHECK(hash == other.update(snapshot({shared(*a), shared(*b)})));
  }

  TEST_CASE("every difference shows: in an entry, between entries, outside of the tables") {
    std::set<std::string> hashes;
    MeshHash hash;
    const auto add = [&](const model::MeshSnapshot& mesh) {
      CHECK(hashes.insert(hash.update(mesh)).second);
    };
    const auto a = shared(entry("a", "10.0.0.1")), b = shared(entry("b", "10.0.0.2"));
    add(snapshot({}));
    add(snapshot({a}));
    add(snapshot({b}));
    add(snapshot({a, b}));
    add(snapshot({shared(entry("a", "10.0.0.2")), shared(entry("b", "10.0.0.1"))}));
    model::MeshSnapshot mesh = snapshot({a});
    mesh.policies = Table<model::IdentityPolicy>({shared(model::IdentityPolicy{
        identity("store"), std::make_shared<const std::vector<model::Upstream>>(), {}})});
    add(mesh);
    model::IdentityPolicy allowed = **mesh.policies.begin();
    allowed.inbound.emplace_back().sources = {identity("buyer")};
    mesh.policies = Table<model::IdentityPolicy>({shared(allowed)});
    add(mesh);
    mesh.config.proxy.permissive = true;
    add(mesh);
    mesh.smi_upstreams = true;
    add(mesh);
    mesh.accepted_domains = {TrustDomain("cluster.local")};
    add(mesh);
    Denials denied;
    denied.accounts[identity("buyer")];
    mesh.denied = shared(denied);
    add(mesh);
  }

  TEST_CASE("an origin, unlike the value beside it, is no part of the hash and the digests") {
    const auto mesh_of = [](const model::Origin& origin, const std::string& principal) {
      model::ServiceEntry service = entry("a", "10.0.0.1");
      service.origin = service.split_origin = service.limits_origin = service.order_origin = origin;
      service.ingress[port(8080)] = {
          .origin = origin, .tls = {}, .networks = {}, .principals = {principal}};
      model::ClientPolicy client{identity("buyer"), {}};
      client.retries[service.name] = {{.retry_on = "5xx"}, origin};
      client.egress.emplace_back().origin = origin;
      model::WorkloadEntry workload;
      workload.denial_origin = origin;
      model::MeshSnapshot out = snapshot({shared(service)});
      out.clients = Table<model::ClientPolicy>({shared(client)});
      out.workloads = Table<model::WorkloadEntry>({shared(workload)});
      out.telemetries = Table<model::TelemetryEntry>(
          {shared(model::TelemetryEntry{.name = {kNs, "log"}, .origin = origin})});
      return out;
    };
    const model::Origin one{{kinds::kTrafficSplit, kNs, "a"}, "spec.backends"};
    const model::Origin other{{kinds::kTrafficSplit, kNs, "b"}, "spec", false};
    MeshHash hash;
    const std::string before = hash.update(mesh_of(one, "a.edge"));
    const model::MeshDigests digests = hash.digests();
    CHECK(hash.update(mesh_of(other, "a.edge")) == before);
    CHECK(hash.digests() == digests);
    CHECK(hash.update(mesh_of(one, "b.edge")) != before);
  }

  TEST_CASE("the providers of endpoints are no part of the hash and the digests") {
    const auto mesh_of = [](const char* address, const char* provider) {
      model::MeshSnapshot out = snapshot({});
      out.endpoints = Table<model::ServiceEndpoints>({shared(model::ServiceEndpoints{
          service_name("a"), {served_at(address, "store", 8081)}, {{provider}}})});
      return out;
    };
    MeshHash hash;
    const std::string before = hash.update(mesh_of("10.0.0.1", "vm"));
    const model::MeshDigests digests = hash.digests();
    CHECK(hash.update(mesh_of("10.0.0.1", "cloud")) == before);
    CHECK(hash.digests() == digests);
    CHECK(hash.update(mesh_of("10.0.0.2", "cloud")) != before);
  }
}
