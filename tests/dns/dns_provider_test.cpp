// DNSResources become endpoints and workloads, whose names do not depend on their number.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "machines/dns_resource.hpp"
#include "model/names.hpp"
#include "osm/spec/dns_resources.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/testing/memory_resource_resolver.hpp"
#include "osm/values/ingress_backend.hpp"

using namespace osm;

namespace {

using Ids = std::set<std::string>;
using Services = std::vector<ServiceName>;
using Texts = std::vector<std::string>;
using Workloads = std::vector<WorkloadName>;

const TrustDomain kDomain("cluster.local");

std::string dns_yaml(const std::string& name, const std::string& spec,
                     const std::string& ns = "shop") {
  return "apiVersion: workload.openservicemesh.io/v1alpha1\nkind: DNSResource\n"
         "metadata: {name: " +
         name + ", namespace: " + ns + ", labels: {app: api}}\nspec: {" + spec + "}\n";
}

Resolution one(const std::string& address) { return {.instances = {{.address = address}}}; }

struct Fixture {
  Fixture() { mesh.put_namespace("shop"); }
  ~Fixture() { provider.reset(); }

  void start() {
    provider = dns::make_dns_provider({resolver, store, mesh, kDomain, log, metrics});
    services_subscription =
        provider->subscribe([this](const Services& names) { services.push_back(names); });
    workloads_subscription = provider->subscribe_workloads(
        [this](const Workloads& names) { workloads.push_back(names); });
  }
  void put(const std::string& yaml) {
    const auto status = store.put_yaml(yaml, "mesh/dns.yaml");
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().text()));
  }
  void serve(std::variant<Port, std::string> target = Port{8080}) {
    mesh.put(Service{{"shop", "api"},
                     "10.96.0.1",
                     false,
                     {{"app", "api"}},
                     {{"", Port{80}, std::move(target), Protocol::kHttp}}});
  }
  Texts endpoints() const {
    Texts out;
    const auto list = provider->list_endpoints_for_service({"shop", "api"});
    REQUIRE(list.has_value());
    for (const auto& each : *list)
      out.push_back(each.address + ':' + std::to_string(number(each.port)) +
                    (each.weight ? " weight " + std::to_string(*each.weight) : "") +
                    (each.healthy ? "" : " unhealthy"));
    std::sort(out.begin(), out.end());
    return out;
  }
  // "name=address", ordered by name.
  Texts served() const {
    Texts out;
    for (const auto& workload : provider->list_workloads())
      out.push_back(workload.name.name + '=' + workload.address);
    return out;
  }
  Texts problems() const {
    Texts out;
    for (const auto& problem : provider->list_problems()) out.push_back(problem.text());
    return out;
  }
  ProxyId proxy_of(const std::string& name) const {
    const auto workload = provider->find_workload({"shop", name});
    return workload ? workload->proxy_id : ProxyId();
  }

  osm::testing::MemoryObjectStore store;
  osm::testing::MemoryMeshSpec mesh;
  osm::testing::MemoryResourceResolver resolver{"dns"};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  std::unique_ptr<dns::DnsProvider> provider;
  Subscription services_subscription;
  Subscription workloads_subscription;
  std::vector<Services> services;
  std::vector<Workloads> workloads;
};

std::vector<std::string> faults(const std::string& spec, const std::string& name = "api") {
  osm::testing::MemoryObjectStore store;
  const auto status = store.put_yaml(dns_yaml(name, spec), "mesh/dns.yaml");
  REQUIRE(status.ok());
  std::vector<std::string> out;
  for (const auto& object : store.list(kinds::kDnsResource))
    for (const Problem& problem : dns::decode_dns_resource(*object).problems)
      out.push_back(problem.field + ": " + problem.cause);
  return out;
}

}  // namespace

TEST_SUITE("dns::decode_dns_resource") {
  TEST_CASE("valid objects have no faults") {
    for (const char* spec : {"name: api.example.com, serviceAccount: a",
                             "name: API.example.com., type: AAAA, serviceAccount: a",
                             "name: localhost, type: A, serviceAccount: a",
                             "name: _web._tcp.example, type: SRV, serviceAccount: a",
                             "name: a, serviceAccount: a, ports: [{name: p, port: 80}]"})
      CHECK_MESSAGE(faults(spec).empty(), spec);
  }

  TEST_CASE("each fault names its field") {
    const std::pair<const char*, const char*> kCases[] = {
        {"serviceAccount: a", "spec.name: required"},
        {"name: 7, serviceAccount: a", "spec.name: must be a string"},
        {"name: 10.0.0.1, serviceAccount: a", "spec.name: must be a DNS name; for an address use"},
        {"name: 'fd00::1', serviceAccount: a", "spec.name: must be a DNS name; for an address use"},
        {"name: a..b, serviceAccount: a", "spec.name: must be a DNS name, such as"},
        {"name: '', serviceAccount: a", "spec.name: must be a DNS name, such as"},
        {"name: 'a b', serviceAccount: a", "spec.name: must be a DNS name, such as"},
        {"name: a, type: TXT, serviceAccount: a", "spec.type: must be A, AAAA or SRV"},
        {"name: web.example, type: SRV, serviceAccount: a",
         "spec.name: must be the name of an SRV"},
        {"name: _web.example, type: SRV, serviceAccount: a",
         "spec.name: must be the name of an SRV"},
        {"name: a", "spec.serviceAccount: required"},
        {"name: a, serviceAccount: a, address: 10.0.0.1",
         "spec.address: no such field; known here: name, type, serviceAccount, ports"},
    };
    for (const auto& [spec, fault] : kCases) {
      const auto found = faults(spec);
      REQUIRE_MESSAGE(found.size() == 1, spec);
      CHECK_MESSAGE(found[0].starts_with(fault), found[0]);
    }
  }
}

TEST_SUITE("dns::DnsProvider") {
  TEST_CASE_FIXTURE(Fixture, "a Service's endpoints are the addresses behind its names") {
    serve();
    put(dns_yaml("api", "name: Api.example., serviceAccount: account"));
    resolver.set("A:api.example", one("10.0.0.1"));
    start();
    CHECK(provider->id() == "dns");
    CHECK(provider->has_synced());
    CHECK(resolver.followed() == Ids{"A:api.example"});
    CHECK(endpoints() == Texts{"10.0.0.1:8080"});
    CHECK(served() == Texts{"api=10.0.0.1"});
    const auto workload = provider->find_workload({"shop", "api"});
    REQUIRE(workload);
    CHECK(workload->account == ServiceAccount{"shop", "account"});
    CHECK(workload->services == Services{{"shop", "api"}});
    CHECK(workload->proxy_id == model::derived_proxy_id(kDomain, {"shop", "api"}));

    resolver.set("A:api.example", one("10.0.0.2"));
    CHECK(endpoints() == Texts{"10.0.0.2:8080"});
    CHECK(served() == Texts{"api=10.0.0.2"});
    CHECK(services == std::vector<Services>{{{"shop", "api"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "api"}}});
  }

  TEST_CASE_FIXTURE(Fixture, "while a changed name has no answer, the last name's machines stay") {
    serve();
    put(dns_yaml("api", "name: old.example, serviceAccount: account"));
    resolver.set("A:old.example", one("10.0.0.1"));
    start();
    put(dns_yaml("api", "name: new.example, serviceAccount: account"));
    CHECK(resolver.followed() == Ids{"A:new.example"});
    CHECK(endpoints() == Texts{"10.0.0.1:8080"});
    CHECK(served() == Texts{"api=10.0.0.1"});
    resolver.set("A:new.example", one("10.0.0.2"));
    CHECK(endpoints() == Texts{"10.0.0.2:8080"});
    CHECK(served() == Texts{"api=10.0.0.2"});
  }

  TEST_CASE_FIXTURE(Fixture, "several instances have names and UUIDs of their own") {
    serve();
    put(dns_yaml("api", "name: api.example, serviceAccount: account"));
    start();
    const ResourceInstance first{.name = "10-0-0-1", .address = "10.0.0.1"};
    const ResourceInstance second{.name = "10-0-0-2", .address = "10.0.0.2"};
    resolver.set("A:api.example", Resolution{.instances = {first}});
    CHECK(endpoints() == Texts{"10.0.0.1:8080"});
    CHECK(served() == Texts{"api=10.0.0.1", "api-10-0-0-1=10.0.0.1"});
    resolver.set("A:api.example", Resolution{.instances = {first, second}});
    CHECK(endpoints() == Texts{"10.0.0.1:8080", "10.0.0.2:8080"});
    CHECK(served() == Texts{"api=10.0.0.1", "api-10-0-0-1=10.0.0.1", "api-10-0-0-2=10.0.0.2"});
    CHECK(proxy_of("api") == model::derived_proxy_id(kDomain, {"shop", "api"}));
    CHECK(proxy_of("api-10-0-0-2") == model::derived_proxy_id(kDomain, {"shop", "api-10-0-0-2"}));
    // Both proxies of the machine that is left are served on.
    resolver.set("A:api.example", Resolution{.instances = {second}});
    CHECK(served() == Texts{"api=10.0.0.2", "api-10-0-0-2=10.0.0.2"});
    CHECK(endpoints() == Texts{"10.0.0.2:8080"});
  }

  TEST_CASE_FIXTURE(Fixture, "a set that scales has a workload for each instance only") {
    serve();
    put(dns_yaml("api", "name: api.example, serviceAccount: account"));
    start();
    resolver.set("A:api.example",
                 Resolution{.instances = {{.name = "7", .address = "10.0.0.1"}}, .scales = true});
    CHECK(served() == Texts{"api-7=10.0.0.1"});
    CHECK(endpoints() == Texts{"10.0.0.1:8080"});
  }

  TEST_CASE_FIXTURE(Fixture, "an SRV record's port is the one that its service label names") {
    serve(std::string("web"));
    put(dns_yaml("api", "name: _web._tcp.example, type: SRV, serviceAccount: account"));
    start();
    resolver.set("SRV:_web._tcp.example",
                 Resolution{.instances = {{"10-0-0-1-81", "10.0.0.1", Port{81}, {}, 3, true},
                                          {"10-0-0-2-82", "10.0.0.2", Port{82}, {}, 1, false}}});
    CHECK(endpoints() == Texts{"10.0.0.1:81 weight 3", "10.0.0.2:82 weight 1 unhealthy"});
    CHECK(provider->find_workload({"shop", "api-10-0-0-2-82"})->ports ==
          std::map<std::string, Port>{{"web", Port{82}}});
    // A number, and a port of the object, are what they are.
    serve(Port{9000});
    CHECK(endpoints() == Texts{"10.0.0.1:9000 weight 3", "10.0.0.2:9000 weight 1 unhealthy"});
    serve(std::string("admin"));
    CHECK(endpoints().empty());
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("the port named \"admin\"") != std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture, "addresses that sidecars cannot have are left out and reported") {
    serve();
    put(dns_yaml("api", "name: api.example, type: AAAA, serviceAccount: account"));
    start();
    resolver.set("AAAA:api.example",
                 Resolution{.instances = {{.name = "a", .address = "fd00::1"},
                                          {.name = "b", .address = "127.0.0.1"},
                                          {.name = "c", .address = "10.0.0.1"}}});
    CHECK(endpoints() == Texts{"10.0.0.1:8080"});
    CHECK(served() == Texts{"api=10.0.0.1", "api-c=10.0.0.1"});
    const auto told = problems();
    REQUIRE(told.size() == 2);
    CHECK(told[0].find("'127.0.0.1', which is left out") != std::string::npos);
    CHECK(told[1].find("IPv6 address fd00::1 is left out, since sidecars listen on IPv4 only") !=
          std::string::npos);
    CHECK(told[1].find("[unused-field]") != std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture, "an instance whose workload would have no valid name is left out") {
    serve();
    put(dns_yaml("api", "name: api.example, serviceAccount: account"));
    start();
    resolver.set("A:api.example",
                 Resolution{.instances = {{.name = std::string(60, 'x'), .address = "10.0.0.1"}},
                            .scales = true});
    CHECK(endpoints().empty());
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("must be a DNS label") != std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a resolver that is away makes the provider stale and keeps endpoints") {
    serve();
    put(dns_yaml("api", "name: api.example, serviceAccount: account"));
    resolver.set("A:api.example", one("10.0.0.1"));
    start();
    resolver.set_healthy(false);
    CHECK_FALSE(provider->healthy());
    CHECK(provider->has_synced());
    CHECK(endpoints() == Texts{"10.0.0.1:8080"});
    CHECK(services == std::vector<Services>{{}});
    resolver.set_problems({{"A:api.example", ErrorCode::kUnavailable, "nobody answers; ask"}});
    CHECK(problems() == Texts{"mesh/dns.yaml:4: DNSResource shop/api: spec: nobody answers; ask "
                              "[unavailable]"});
    CHECK(workloads == std::vector<Workloads>{{}});
    resolver.set_healthy(true);
    CHECK(provider->healthy());
  }

  TEST_CASE_FIXTURE(Fixture, "a provider is synced when its resolver is, and stays so") {
    serve();
    put(dns_yaml("api", "name: api.example, serviceAccount: account"));
    resolver.set_synced(false);
    start();
    CHECK_FALSE(provider->has_synced());
    CHECK(provider->healthy());
    resolver.set("A:api.example", one("10.0.0.1"));
    resolver.set_synced(true);
    CHECK(provider->has_synced());
    CHECK(services.back().empty());
    resolver.set_synced(false);
    CHECK(provider->has_synced());
  }

  TEST_CASE_FIXTURE(Fixture, "names are followed while an object in the mesh has them") {
    put(dns_yaml("a", "name: a.example, serviceAccount: account"));
    put(dns_yaml("b", "name: a.example, serviceAccount: account"));
    put(dns_yaml("c", "name: c.example, serviceAccount: account", "outside"));
    put(dns_yaml("d", "name: a..b, serviceAccount: account"));
    start();
    CHECK(resolver.followed() == Ids{"A:a.example"});
    store.remove({kinds::kDnsResource, "shop", "a"});
    CHECK(resolver.followed() == Ids{"A:a.example"});
    put(dns_yaml("b", "name: b.example, serviceAccount: account"));
    CHECK(resolver.followed() == Ids{"A:b.example"});
    mesh.put_namespace("outside");
    CHECK(resolver.followed() == Ids{"A:b.example", "A:c.example"});
    store.remove({kinds::kDnsResource, "shop", "b"});
    store.remove({kinds::kDnsResource, "outside", "c"});
    CHECK(resolver.followed().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a workload's name passes from one object to another") {
    put(dns_yaml("api", "name: api.example, serviceAccount: account"));
    put(dns_yaml("api-x", "name: other.example, serviceAccount: account"));
    resolver.set("A:other.example", one("10.0.0.9"));
    start();
    CHECK(served() == Texts{"api-x=10.0.0.9"});
    resolver.set("A:api.example",
                 Resolution{.instances = {{.name = "x", .address = "10.0.0.1"}}, .scales = true});
    CHECK(served() == Texts{"api-x=10.0.0.1"});
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("DNSResource shop/api-x already has this proxy UUID") !=
          std::string::npos);
    store.remove({kinds::kDnsResource, "shop", "api"});
    CHECK(served() == Texts{"api-x=10.0.0.9"});
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "sources of IngressBackends are resolved, also outside of the mesh") {
    put(dns_yaml("gateway", "name: gw.example, serviceAccount: account", "edge"));
    const auto status = store.put_yaml(
        "apiVersion: v1\nkind: Service\nmetadata: {name: gw, namespace: edge}\n"
        "spec: {selector: {app: api}, ports: [{port: 80}]}\n",
        "mesh/gw.yaml");
    REQUIRE(status.ok());
    IngressBackend ingress;
    ingress.services = {{{"edge", "gw"}, 0}};
    mesh.put(Policy({kinds::kIngressBackend, "shop", "in"}, ingress));
    start();
    CHECK(resolver.followed() == Ids{"A:gw.example"});
    resolver.set("A:gw.example", one("10.0.0.7"));
    CHECK(provider->list_source_addresses({"edge", "gw"}) == Texts{"10.0.0.7"});
    CHECK(services.back() == Services{{"edge", "gw"}});
  }
}
