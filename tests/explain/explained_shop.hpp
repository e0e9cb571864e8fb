// A shop, and the explanations of calls in it.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "catalog/mesh_builder.hpp"
#include "catalog/mesh_values.hpp"
#include "explain/explain.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/ingress_backend.hpp"

namespace osm::inline v1::explain::values {

using namespace catalog::values;

// The web account may read the books of the api account, and nobody may call the database.
struct Shop {
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider vm{"vm"};
  catalog::MeshBuilder builder{spec, {{&vm}}, {&vm}, TrustDomain("cluster.local")};
  Subscription endpoint_changes =
      vm.subscribe([this](const auto& names) { builder.endpoints_changed(names); });
  Subscription workload_changes =
      vm.subscribe_workloads([this](const auto& names) { builder.workloads_changed(names); });
  std::shared_ptr<const model::MeshSnapshot> mesh;
  std::set<ServiceIdentity> accounts{identity("web"), identity("api"), identity("batch"),
                                     identity("db")};
  std::vector<Problem> left_out;

  Shop() {
    spec.put_namespace(kNs);
    spec.put(
        service("api", "10.1.0.1",
                {service_port("http", 80, 8080), service_port("sql", 3306, 3306, Protocol::kTcp)}));
    spec.put(service("db", "10.1.0.2"));
    spec.put(routes("books", {"read", "list"}));
    spec.put(smi::TcpRoute{.name = {kNs, "sql"}, .ports = {port(3306)}});
    spec.put(target("web-reads", "api", {"web"}, {http_rule("books", {"read"})}));
    spec.put(target("batch-lists", "api", {"batch"}, {http_rule("books", {"list"})}));
    vm.set_endpoints(service_name("api"),
                     {served_at("10.0.0.1", "api"), served_at("10.0.0.1", "api", 3306, "sql")});
    vm.set_endpoints(service_name("db"), {served_at("10.0.0.2", "db")});
    vm.put_workload(workload("api-1", "u-api", "api", "10.0.0.1", {"api"}));
    vm.put_workload(workload("db-1", "u-db", "db", "10.0.0.2", {"db"}));
    vm.put_workload(workload("web-1", "u-web", "web", "10.0.0.9"));
  }

  Result<Explanation> ask(CallQuestion question) {
    if (const auto next = builder.build()) mesh = next;
    return explain(*mesh, question, accounts, left_out);
  }
  Explanation call(const std::string& source, const std::string& destination, int at = 80,
                   const std::string& path = "/read", const std::string& method = "GET",
                   const std::string& host = "") {
    auto answer = ask({.source = source,
                       .destination = destination,
                       .port = port(at),
                       .method = method,
                       .path = path,
                       .host = host});
    REQUIRE_MESSAGE(answer.ok(), (answer.ok() ? "" : answer.error().message));
    REQUIRE_FALSE(answer->ways.empty());
    return *std::move(answer);
  }
  void configure(bool permissive, bool egress) {
    MeshConfig config;
    config.proxy.permissive = permissive;
    config.proxy.egress = egress;
    spec.set_mesh_config(config);
  }

  // Clients of 198.51.100.0/24 may call shop/api from outside of the mesh.
  void admit_gateways() {
    IngressBackend open;
    open.backends = {{.service = service_name("api"), .target_port = port(8080), .tls = {}}};
    open.networks = {"198.51.100.0/24"};
    open.limits_addresses = true;
    spec.put(Policy({kinds::kIngressBackend, kNs, "open"}, open));
  }
};

// The last step of an explanation with one way: "server denies TrafficTarget shop/x: reason".
inline std::string decision(const Explanation& told) {
  REQUIRE(told.ways.size() == 1);
  const ExplainedStep& last = told.ways.front().steps.back();
  return last.stage + ' ' + std::string(step_effect_text(last.effect)) + ' ' +
         (last.object.kind.empty() ? "-" : last.object.str()) + ": " + last.text;
}

inline bool begins(const std::string& text, const std::string& with) {
  return text.rfind(with, 0) == 0;
}
inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
inline int status(const Explanation& told) { return told.ways.front().answer.status; }

}  // namespace osm::inline v1::explain::values
