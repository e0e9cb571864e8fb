// Ports, accounts, headless endpoints and splits of a Service are resolved, and conflicts by name.
#include "catalog/resolve_services.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "mesh_values.hpp"
#include "model/own_ports.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

ServiceDrafts drafts_of(const std::vector<Service>& services,
                        const std::vector<Endpoint>& endpoints = {}) {
  ServiceDrafts out;
  for (const Service& service : services) {
    const endpoint::MergedService merged{
        .name = service.name, .endpoints = endpoints, .problems = {}};
    out[service.name] =
        std::make_shared<const model::ServiceEntry>(resolve_service(service, &merged));
  }
  return out;
}

const model::ServiceEntry& find(const SettledServices& settled, const std::string& name) {
  for (const auto& service : settled.services)
    if (service.name == service_name(name)) return service;
  FAIL("no service " << name);
  return settled.services.front();
}

using Split = std::vector<WeightedCluster>;

// The Service "s" with these endpoints; `outside`: workloads outside of the mesh serve it, too.
model::ServiceEntry resolved(std::vector<Endpoint> endpoints, bool outside, bool selects) {
  Service written = service("s", "10.1.0.1");
  if (!selects) written.selector.clear();
  const endpoint::MergedService merged{.name = service_name("s"),
                                       .endpoints = std::move(endpoints),
                                       .served_outside = outside,
                                       .problems = {}};
  return resolve_service(written, &merged);
}

}  // namespace

TEST_SUITE("catalog::resolve_service") {
  TEST_CASE("target ports") {
    struct Case {
      const char* name;
      ServicePort port;
      std::vector<Endpoint> endpoints;
      int target;
    };
    const Case cases[] = {
        {"a number is itself", service_port("http", 80, 8080), {}, 8080},
        {"a name without endpoints is 0", named_port("http", 80, "web"), {}, 0},
        {"a name is the lowest of its endpoints' ports",
         named_port("http", 80, "web"),
         {served_at("10.0.0.1", "a", 9002), served_at("10.0.0.2", "a", 9001)},
         9001},
        {"an unhealthy endpoint counts",
         named_port("http", 80, "web"),
         {served_at("10.0.0.1", "a", 9000, "http", false)},
         9000},
        {"endpoints of other service ports do not count",
         named_port("http", 80, "web"),
         {served_at("10.0.0.1", "a", 7000, "admin"), served_at("10.0.0.1", "a", 9000)},
         9000},
        {"an endpoint that names no service port serves the only one",
         named_port("http", 80, "web"),
         {served_at("10.0.0.1", "a", 9000, "")},
         9000},
    };
    for (const Case& one : cases) {
      CAPTURE(one.name);
      const endpoint::MergedService merged{
          .name = service_name("s"), .endpoints = one.endpoints, .problems = {}};
      const auto entry = resolve_service(service("s", "10.1.0.1", {one.port}), &merged);
      REQUIRE(entry.ports.size() == 1);
      CHECK(number(entry.ports[0].target_port) == one.target);
      CHECK(entry.named_targets.size() ==
            (std::holds_alternative<std::string>(one.port.target_port) ? 1U : 0U));
    }
  }

  TEST_CASE("two named ports share a target port only where their endpoints leave no choice") {
    const auto targets = [](std::vector<Endpoint> endpoints) {
      const endpoint::MergedService merged{
          .name = service_name("s"), .endpoints = std::move(endpoints), .problems = {}};
      const auto entry = resolve_service(
          service("s", "10.1.0.1", {named_port("a", 80, "web"), named_port("b", 81, "admin")}),
          &merged);
      return std::pair(number(entry.ports[0].target_port), number(entry.ports[1].target_port));
    };
    // Machines that listen the other way round: one cluster for both would mix them up.
    CHECK(targets({served_at("10.0.0.1", "x", 8080, "a"), served_at("10.0.0.1", "x", 9090, "b"),
                   served_at("10.0.0.2", "x", 9090, "a"), served_at("10.0.0.2", "x", 8080, "b")}) ==
          std::pair<std::uint16_t, std::uint16_t>(8080, 9090));
    CHECK(targets({served_at("10.0.0.1", "x", 8080, "a"), served_at("10.0.0.1", "x", 8080, "b")}) ==
          std::pair<std::uint16_t, std::uint16_t>(8080, 8080));
  }

  TEST_CASE("the accounts behind a service are ordered, unique, unhealthy ones included") {
    const endpoint::MergedService merged{
        .name = service_name("s"),
        .endpoints = {served_at("10.0.0.1", "b"), served_at("10.0.0.2", "a", 8080, "http", false),
                      served_at("10.0.0.3", "b")},
        .problems = {}};
    const auto entry = resolve_service(service("s", "10.1.0.1"), &merged);
    CHECK(entry.identities == std::vector{identity("a"), identity("b")});
    CHECK(entry.addresses.empty());
    CHECK(resolve_endpoints(merged).endpoints.size() == 2);
  }

  TEST_CASE("a service with a selector is idle if it is known and nobody serves it") {
    CHECK(resolved({}, false, true).idle);
    CHECK_FALSE(resolved({}, false, false).idle);
    CHECK_FALSE(resolved({}, true, true).idle);
    CHECK_FALSE(resolved({served_at("10.0.0.1", "a", 8080, "http", false)}, false, true).idle);
    CHECK_FALSE(resolve_service(service("s", "10.1.0.1"), nullptr).idle);
  }

  TEST_CASE("a service is outside of the mesh if only others can serve it, and is reported") {
    CHECK(resolved({}, true, true).outside);    // pods without a sidecar
    CHECK(resolved({}, false, false).outside);  // an external database
    CHECK_FALSE(resolved({}, false, true).outside);
    CHECK_FALSE(resolved({served_at("10.0.0.1", "a")}, true, true).outside);
    Service unknown = service("s", "10.1.0.1");
    CHECK_FALSE(resolve_service(unknown, nullptr).outside);
    unknown.selector.clear();
    CHECK(resolve_service(unknown, nullptr).outside);
    Table<model::ServiceEntry> services;
    services = services.with(std::make_shared<const model::ServiceEntry>(resolved({}, true, true)));
    CHECK(check_outside(services, true).empty());
    const auto problems = check_outside(services, false);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].object == ObjectKey{kinds::kService, kNs, "s"});
    CHECK(problems[0].cause.find("enableEgress") != std::string::npos);
  }

  TEST_CASE("addresses whose endpoints have other numbers than the target port are recorded") {
    const endpoint::MergedService merged{
        .name = service_name("s"),
        .endpoints = {served_at("10.0.0.1", "a", 9001), served_at("10.0.0.2", "a", 9002),
                      served_at("10.0.0.3", "a", 9003, "http", false),
                      served_at("10.0.0.4", "a", 9001), served_at("10.0.0.4", "a", 9002),
                      served_at("10.0.0.5", "a", 9003), served_at("10.0.0.5", "a", 9002),
                      served_at("10.0.0.6", "a", 7000, "admin")},
        .problems = {}};
    const std::vector ports{named_port("http", 80, "web"), service_port("admin", 81, 7001)};
    const auto entry = resolve_service(service("s", "", ports), &merged);
    CHECK(number(entry.ports[0].target_port) == 9001);
    using Numbers = std::map<std::string, std::vector<Port>>;
    REQUIRE(entry.other_targets.size() == 2);
    CHECK(entry.other_targets.at("http") == Numbers{{"10.0.0.2", {port(9002)}},
                                                    {"10.0.0.3", {port(9003)}},
                                                    {"10.0.0.4", {port(9001), port(9002)}},
                                                    {"10.0.0.5", {port(9002), port(9003)}}});
    CHECK(entry.other_targets.at("admin") == Numbers{{"10.0.0.6", {port(7000)}}});
    CHECK(resolve_service(service("s", "10.1.0.1", ports), &merged).other_targets ==
          entry.other_targets);
    CHECK(number(model::number_at(entry, entry.ports[0], "10.0.0.4")) == 9001);
    CHECK(number(model::number_at(entry, entry.ports[0], "10.0.0.5")) == 9002);
    CHECK(number(model::number_at(entry, entry.ports[1], "10.0.0.6")) == 7000);
  }

  TEST_CASE("a headless service has its endpoints' addresses") {
    const endpoint::MergedService merged{
        .name = service_name("s"),
        .endpoints = {served_at("10.0.0.2", "a"), served_at("10.0.0.1", "a"),
                      served_at("10.0.0.1", "a", 9090, "admin")},
        .problems = {}};
    const auto entry = resolve_service(service("s", ""), &merged);
    CHECK(entry.headless);
    CHECK(entry.addresses == std::vector<std::string>{"10.0.0.1", "10.0.0.2"});
    CHECK(resolve_service(service("s", ""), nullptr).addresses.empty());
  }
}

TEST_SUITE("catalog::settle_services") {
  TEST_CASE("a split is as written, and its backends know their apex") {
    const auto settled = settle_services(
        drafts_of(
            {service("apex", "10.1.0.1"), service("v2", "10.1.0.2"), service("v1", "10.1.0.3")}),
        shared<smi::TrafficSplit>({split("s", "apex", {{"v2", 90}, {"v1", 10}, {"v2", 5}})}));
    CHECK(find(settled, "apex").split == Split{{service_name("v2"), 95}, {service_name("v1"), 10}});
    CHECK(find(settled, "v1").apexes == std::vector{service_name("apex")});
    CHECK(find(settled, "v2").apexes == std::vector{service_name("apex")});
    CHECK(settled.problems.empty());
  }

  TEST_CASE("splits that are not whole") {
    struct Case {
      const char* name;
      std::vector<smi::TrafficSplit> splits;
      std::optional<Split> kept;
      std::vector<ErrorCode> problems;
    };
    const ServiceName v1 = service_name("v1");
    const Case cases[] = {
        {"a missing backend is dropped, the rest keeps its weights",
         {split("s", "apex", {{"v1", 10}, {"gone", 90}})},
         Split{{v1, 10}},
         {}},
        {"only missing backends have a weight: the apex has no destination",
         {split("s", "apex", {{"v1", 0}, {"gone", 90}})},
         Split{{v1, 0}},
         {ErrorCode::kInvalidWeights}},
        {"all backends are missing: the apex has no destination",
         {split("s", "apex", {{"gone", 90}})},
         Split{},
         {ErrorCode::kInvalidWeights}},
        {"no backend has a weight, as the specification reports",
         {split("s", "apex", {{"v1", 0}})},
         Split{{v1, 0}},
         {}},
        {"no backends, as the specification reports", {split("s", "apex", {})}, Split{}, {}},
        {"a missing apex", {split("s", "gone", {{"v1", 1}})}, std::nullopt, {}},
        {"the second split of an apex by name is ignored",
         {split("t", "apex", {{"v1", 2}}), split("s", "apex", {{"v1", 1}})},
         Split{{v1, 1}},
         {ErrorCode::kDuplicateObject}},
        {"weights beyond an int are held there",
         {split("s", "apex", {{"v1", 2147483647}, {"v1", 1}})},
         Split{{v1, 2147483647}},
         {}},
    };
    for (const Case& one : cases) {
      CAPTURE(one.name);
      const auto settled = settle_services(
          drafts_of({service("apex", "10.1.0.1"), service("v1", "10.1.0.2")}), shared(one.splits));
      CHECK(find(settled, "apex").split == one.kept);
      const bool backend = one.kept && !one.kept->empty();
      CHECK(find(settled, "v1").apexes.size() == (backend ? 1U : 0U));
      std::vector<ErrorCode> codes;
      for (const Problem& problem : settled.problems) {
        codes.push_back(problem.code);
        CHECK(problem.object.kind == "TrafficSplit");
      }
      CHECK(codes == one.problems);
    }
  }

  TEST_CASE("an apex that splits to itself does not list itself as its apex") {
    const auto settled =
        settle_services(drafts_of({service("apex", "10.1.0.1")}),
                        shared<smi::TrafficSplit>({split("s", "apex", {{"apex", 1}})}));
    CHECK(find(settled, "apex").split == Split{{service_name("apex"), 1}});
    CHECK(find(settled, "apex").apexes.empty());
  }

  TEST_CASE("a cluster IP and port claimed twice belongs to the first service by name") {
    const auto settled = settle_services(
        drafts_of(
            {service("b", "10.1.0.1", {service_port("http", 80, 1), service_port("x", 81, 2)}),
             service("a", "10.1.0.1", {service_port("http", 80, 3)})}),
        {});
    CHECK(find(settled, "a").ports.size() == 1);
    REQUIRE(find(settled, "b").ports.size() == 1);
    CHECK(find(settled, "b").ports[0].port_name == "x");
    REQUIRE(settled.problems.size() == 1);
    CHECK(settled.problems[0].code == ErrorCode::kConflictingAddress);
    CHECK(settled.problems[0].object == ObjectKey{kinds::kService, "shop", "b"});
    CHECK(settled.problems[0].cause.find("10.1.0.1:80") != std::string::npos);
    CHECK(settled.problems[0].cause.find("shop/a") != std::string::npos);
  }

  TEST_CASE("a cluster IP and port claimed twice belongs to the older service") {
    const auto settled =
        settle_services(drafts_of({service("b", "10.1.0.1"), service("a", "10.1.0.1")}), {},
                        {{service_name("a"), {2, {}}}, {service_name("b"), {1, {}}}});
    CHECK(find(settled, "b").ports.size() == 1);
    CHECK(find(settled, "a").ports.empty());
    REQUIRE(settled.problems.size() == 1);
    CHECK(settled.problems[0].object == ObjectKey{kinds::kService, "shop", "a"});
  }

  TEST_CASE("two headless services share an address only on different ports") {
    const std::vector<Endpoint> same{served_at("10.0.0.1", "a")};
    const auto clash = settle_services(drafts_of({service("b", ""), service("a", "")}, same), {});
    CHECK(find(clash, "a").addresses == std::vector<std::string>{"10.0.0.1"});
    CHECK(find(clash, "b").addresses.empty());
    CHECK(find(clash, "b").ports.size() == 1);  // still served, still a backend
    CHECK(clash.problems.size() == 1);

    const auto apart = settle_services(
        drafts_of({service("b", "", {service_port("x", 81, 8080)}), service("a", "")}, same), {});
    CHECK(find(apart, "b").addresses.size() == 1);
    CHECK(apart.problems.empty());
  }

  TEST_CASE("a headless address that is another's cluster IP is claimed once") {
    auto drafts = drafts_of({service("b", "")}, {served_at("10.1.0.1", "b")});
    drafts.merge(drafts_of({service("a", "10.1.0.1")}));
    const auto settled = settle_services(drafts, {});
    CHECK(find(settled, "b").addresses.empty());
    CHECK(settled.problems.size() == 1);
  }
}
