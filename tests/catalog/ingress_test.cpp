// Callers of a backend follow its source Services, in both modes, without workloads of the mesh;
// backends without effect are reported.
#include <doctest/doctest.h>

#include <stdexcept>

#include "built_mesh.hpp"
#include "mesh_values.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/ingress_backend.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

using Texts = std::vector<std::string>;
using Callers = std::map<Port, model::IngressPort>;

const ServiceName kGateway{"edge", "gateway"};  // outside of the mesh

IngressBackend by_service(const std::string& service = "store", int target = 8080) {
  return {.backends = {{service_name(service), port(target), {}, 0}},
          .services = {{kGateway, 0}},
          .networks = {},
          .principals = {},
          .limits_addresses = true};
}

IngressBackend by_name(const Texts& principals) {
  return {.backends = {{service_name("store"), port(8080), IngressTls{true, {}}, 0}},
          .services = {},
          .networks = {},
          .principals = principals,
          .limits_addresses = false};
}

// A store on target port 8080, and a gateway outside of the mesh.
struct Shop : BuiltMesh {
  explicit Shop(bool permissive = false, bool obeyed = true) {
    MeshConfig config;
    config.proxy.permissive = permissive;
    config.proxy.ingress = obeyed;
    spec.set_mesh_config(config);
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1"));
    spec.put(service("ledger", "10.1.0.2"));
    next();
  }
  const model::MeshSnapshot& put(const std::string& name, const IngressBackend& policy) {
    spec.put(Policy({kinds::kIngressBackend, kNs, name}, policy));
    return next();
  }
  const model::MeshSnapshot& gateways(const Texts& addresses) {
    vm.set_source_addresses(kGateway, addresses);
    return next();
  }
  // Without the object, which problems and explanations name.
  Callers callers(const std::string& service = "store") const {
    Callers out = last->services.find(service_name(service))->ingress;
    for (auto& [port, callers] : out) callers.origin = {};
    return out;
  }
  // The only problem.
  const Problem& problem() const {
    REQUIRE(last->problems->size() == 1);
    return last->problems->front();
  }
};

// A workload with the address of a gateway.
Workload at_gateway(const std::string& ns, const std::string& name, WorkloadKind kind) {
  Workload out = workload(name, "11111111-1111-4111-8111-111111111111", "web", "10.9.0.1");
  out.name.ns = out.account.ns = ns;
  out.kind = kind;
  return out;
}

// Knows one address behind every source Service, and throws while it is broken.
struct Fragile final : EndpointsProvider {
  bool broken = true;

  std::string id() const override { return "fragile"; }
  bool has_synced() const override { return true; }
  bool healthy() const override { return true; }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName&) const override {
    return std::nullopt;
  }
  std::vector<std::string> list_source_addresses(const ServiceName&) const override {
    if (broken) throw std::runtime_error("not now");
    return {"10.9.0.1"};
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)>) override {
    return {};
  }
};

}  // namespace

TEST_SUITE("catalog.ingress") {
  TEST_CASE("a source Service is followed, and its changes concern the backend alone") {
    for (const bool permissive : {false, true}) {
      CAPTURE(permissive);
      Shop shop(permissive);
      const auto& nobody = shop.put("in", by_service());
      CHECK(nobody.changes.services == std::set{service_name("store")});
      CHECK(
          shop.callers() ==
          Callers{{port(8080), {.origin = {}, .tls = {}, .networks = Texts{}, .principals = {}}}});
      CHECK(shop.problem().code == ErrorCode::kDanglingReference);
      CHECK(shop.problem().field == "spec.sources[0]");
      CHECK(shop.problem().cause.find("admits nobody") != std::string::npos);

      const std::string hash = nobody.hash;
      const auto& here = shop.gateways({"10.9.0.2", "10.9.0.1", "fd00::1"});
      CHECK(here.problems->empty());
      CHECK(here.hash != hash);
      CHECK(here.changes.services == std::set{service_name("store")});
      CHECK(here.changes.identities.empty());
      CHECK_FALSE(here.changes.everything);
      CHECK(shop.callers().at(port(8080)).networks == Texts{"10.9.0.1/32", "10.9.0.2/32"});
      CHECK(shop.callers("ledger").empty());

      shop.gateways({"10.9.0.2"});
      CHECK(shop.callers().at(port(8080)).networks == Texts{"10.9.0.2/32"});
      shop.spec.remove({kinds::kIngressBackend, kNs, "in"});
      shop.next();
      CHECK(shop.callers().empty());
      shop.vm.set_source_addresses(kGateway, {});
      CHECK_FALSE(shop.builder.build());  // nobody asks for it any more
    }
  }

  TEST_CASE("addresses and names are ordered, and other ports have none") {
    Shop shop;
    IngressBackend both = by_service();
    both.networks = {"10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/8"};
    shop.put("in", both);
    shop.gateways({"10.9.0.1"});
    CHECK(shop.callers().at(port(8080)).networks ==
          Texts{"10.0.0.0/16", "10.0.0.0/8", "10.9.0.1/32"});
    shop.put("in", by_name({"b.edge", "a.edge", "b.edge"}));
    CHECK(shop.callers() == Callers{{port(8080),
                                     {.origin = {},
                                      .tls = IngressTls{true, {}},
                                      .networks = {},
                                      .principals = Texts{"a.edge", "b.edge"}}}});
    both.principals = {"a.edge"};
    shop.put("in", both);
    CHECK(shop.callers().at(port(8080)).principals.empty());  // http asks for no certificate
  }

  TEST_CASE("a workload of the mesh behind a source Service is not admitted by its address") {
    // A machine of the Service's namespace, and a pod of any.
    for (const auto& [ns, kind] : {std::pair(kGateway.ns, WorkloadKind::kMachine),
                                   std::pair(std::string(kNs), WorkloadKind::kPod)}) {
      Shop shop;
      shop.spec.put_namespace(kGateway.ns);
      shop.put("in", by_service());
      shop.gateways({"10.9.0.1", "10.9.0.2"});
      CHECK(shop.callers().at(port(8080)).networks == Texts{"10.9.0.1/32", "10.9.0.2/32"});
      const Workload meshed = at_gateway(ns, "web", kind);
      shop.vm.put_workload(meshed);
      shop.next();
      CHECK(shop.callers().at(port(8080)).networks == Texts{"10.9.0.2/32"});
      CHECK(shop.problem().code == ErrorCode::kUnusedField);
      CHECK(shop.problem().cause.find("does not admit workload " + meshed.name.str() +
                                      " behind Service edge/gateway: it is in the mesh") == 0);
      shop.vm.remove_workload(meshed.name);
      shop.next();
      CHECK(shop.callers().at(port(8080)).networks == Texts{"10.9.0.1/32", "10.9.0.2/32"});
      CHECK(shop.last->problems->empty());
    }
  }

  TEST_CASE("a machine of another namespace takes no address from a source Service") {
    Shop shop;
    shop.spec.put_namespace(kGateway.ns);
    shop.put("in", by_service());
    shop.gateways({"10.9.0.1", "10.9.0.2"});
    const Workload machine = at_gateway(kNs, "web", WorkloadKind::kMachine);
    shop.vm.put_workload(machine);
    shop.next();
    CHECK(shop.callers().at(port(8080)).networks == Texts{"10.9.0.1/32", "10.9.0.2/32"});
    CHECK(shop.problem().code == ErrorCode::kUnusedField);
    CHECK(shop.problem().object == ObjectKey{kinds::kIngressBackend, kNs, "in"});
    CHECK(shop.problem().field == "spec.sources[0]");
    CHECK(shop.problem().cause ==
          "admits 10.9.0.1 behind Service edge/gateway, although workload shop/web of the mesh "
          "names the same address: a machine of another namespace takes no address out; correct "
          "the machine's");

    // It does not hide a workload that counts.
    Workload own = at_gateway(kGateway.ns, "agent", WorkloadKind::kMachine);
    shop.vm.put_workload(own);
    shop.next();
    CHECK(shop.callers().at(port(8080)).networks == Texts{"10.9.0.2/32"});
    CHECK(shop.problem().cause.find("does not admit workload edge/agent") == 0);
    shop.vm.remove_workload(own.name);
    shop.vm.remove_workload(machine.name);
    CHECK(shop.next().problems->empty());
  }

  TEST_CASE("a provider that throws for a source Service is asked again by the next build") {
    Fragile fragile;
    osm::testing::MemoryMeshSpec spec;
    MeshBuilder builder{spec, {{&fragile}}, {}, TrustDomain("cluster.local")};
    MeshConfig config;
    config.proxy.ingress = true;
    spec.set_mesh_config(config);
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1"));
    spec.put(Policy({kinds::kIngressBackend, kNs, "in"}, by_service()));
    std::vector<Problem> problems;
    const auto networks = [&] {
      const auto snapshot = builder.build();
      REQUIRE(snapshot);
      problems = *snapshot->problems;
      return snapshot->services.find(service_name("store"))->ingress.at(port(8080)).networks;
    };
    CHECK(networks() == Texts{});
    CHECK(builder.has_failures());
    REQUIRE(problems.size() == 2);  // and that the source admits nobody
    CHECK(problems[1].path == "endpoints provider fragile");
    CHECK(problems[1].cause.find("not now") != std::string::npos);
    fragile.broken = false;
    CHECK(networks() == Texts{"10.9.0.1/32"});
    CHECK_FALSE(builder.has_failures());
    CHECK(problems.empty());
  }

  TEST_CASE("of several IngressBackends with one backend the first by name counts") {
    Shop shop;
    shop.put("b", by_name({"b.edge"}));
    shop.put("a", by_name({"a.edge"}));
    CHECK(shop.callers().at(port(8080)).principals == Texts{"a.edge"});
    CHECK(shop.problem().code == ErrorCode::kDuplicateObject);
    CHECK(shop.problem().object == ObjectKey{kinds::kIngressBackend, kNs, "b"});
    CHECK(shop.problem().cause ==
          "IngressBackend shop/a already has backend store port 8080 and is used; merge the two");
  }

  TEST_CASE("a port of the Service in place of its target port is explained") {
    Shop shop;
    IngressBackend policy = by_name({"a.edge"});
    const auto cause = [&](int wanted) {
      policy.backends[0].target_port = port(wanted);
      shop.put("in", policy);
      CHECK(shop.callers().empty());
      CHECK(shop.problem().code == ErrorCode::kDanglingReference);
      CHECK(shop.problem().field == "spec.backends[0].port.number");
      return shop.problem().cause;
    };
    CHECK(cause(80) ==
          "80 is a port of Service shop/store, and a backend is named by its target port: write "
          "8080");
    CHECK(cause(81) == "Service shop/store has no target port 81; it has 8080");
    policy.backends[0].target_port = port(8080);
    CHECK(shop.put("in", policy).problems->empty());
  }

  TEST_CASE("a missing Service is reported until it is there, and a flag turns all off") {
    Shop shop;
    IngressBackend policy = by_name({"a.edge"});
    policy.backends[0].service = service_name("nothing");
    shop.put("in", policy);
    CHECK(shop.problem().code == ErrorCode::kDanglingReference);
    CHECK(shop.problem().field == "spec.backends[0].name");
    shop.spec.put(service("nothing", "10.1.0.3"));
    CHECK(shop.next().problems->empty());
    CHECK(shop.callers("nothing").size() == 1);

    MeshConfig off = shop.last->config;
    off.proxy.ingress = false;
    shop.spec.set_mesh_config(off);
    shop.next();
    CHECK(shop.callers("nothing").empty());
    CHECK(shop.problem().code == ErrorCode::kUnusedField);
    CHECK(shop.problem().cause.find("enableIngressBackendPolicy is false") != std::string::npos);
  }
}
