// A mesh with older objects allows nothing that the newest mesh does not.
#include "nack_provenance/still_allowed.hpp"

#include <doctest/doctest.h>

#include <random>

#include "catalog/allowances.hpp"
#include "catalog/mesh_values.hpp"
#include "lib/run.hpp"
#include "nack_provenance/trial_mesh.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"

using namespace osm;
using namespace osm::nack_provenance;
using namespace osm::catalog::values;

namespace {

smi::TcpRoute tcp_route(const std::string& name, std::vector<Port> ports) {
  return {.name = {kNs, name}, .ports = std::move(ports)};
}

// Small policies whose parts overlap often.
class RandomPolicies {
 public:
  explicit RandomPolicies(std::uint64_t seed) : random_(seed) {}

  model::SpecObjects next() {
    model::SpecObjects out;
    out.config.proxy.permissive = pick(8) == 0;
    out.config.proxy.egress = pick(3) == 0;
    out.namespaces = {kNs};
    for (int i = 0; i < kEach; ++i) {
      const std::string n = std::to_string(i);
      add(out.services, [&] { return any_service("s" + n); });
      add(out.targets, [&] { return target("t" + n, any('a'), some('a'), any_rules()); });
      add(out.splits, [&] { return split("p" + n, any('s'), {{any('s'), 1}, {any('s'), 2}}); });
      add(out.tcp_routes, [&] { return tcp_route("x" + n, any_ports()); });
      add(out.http_routes, [&] { return any_group("r" + n); });
    }
    return out;
  }
  std::set<ObjectKey> some_of(const std::vector<ObjectKey>& keys) {
    std::set<ObjectKey> out;
    for (const ObjectKey& key : keys)
      if (pick(2)) out.insert(key);
    return out;
  }

 private:
  static constexpr int kEach = 4;

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  std::string any(char kind) { return kind + std::to_string(pick(kEach)); }
  std::vector<std::string> some(char kind) {
    std::vector<std::string> out;
    for (int i = 0; i < kEach; ++i)
      if (pick(2)) out.push_back(kind + std::to_string(i));
    return out;
  }
  template <class T, class Make>
  void add(SharedList<T>& list, Make make) {
    if (pick(5)) list.push_back(std::make_shared<const T>(make()));
  }

  Service any_service(const std::string& name) {
    std::vector<ServicePort> ports;
    for (int i = 0; i < 3; ++i)
      if (pick(3)) ports.push_back(service_port("p" + std::to_string(i), 80 + i, 8080 + i));
    return service(name, "10.1.0." + name.substr(1), std::move(ports));
  }
  std::vector<smi::TrafficTargetRule> any_rules() {
    std::vector<smi::TrafficTargetRule> out;
    if (pick(4)) out.push_back(http_rule(any('r'), some('m')));
    if (pick(3) == 0) out.push_back(http_rule(any('r'), some('m')));
    if (pick(2)) out.push_back(tcp_rule(any('x')));
    return out;
  }
  std::vector<Port> any_ports() {
    std::vector<Port> out;
    for (int i = 0; i < 3; ++i)
      if (pick(2)) out.push_back(port(8080 + i));
    return out;
  }
  smi::HttpRouteGroup any_group(const std::string& name) {
    smi::HttpRouteGroup out = routes(name, some('m'));
    for (smi::HttpMatch& match : out.matches)
      if (pick(3) == 0) match.path_regex += "/x";
    return out;
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_SUITE("nack_provenance::still_allowed") {
  TEST_CASE("the common part of two versions is what both permit") {
    model::SpecObjects before;
    before.targets = shared<smi::TrafficTarget>(
        {target("added", "s", {"a"}, {http_rule("r", {"m"})}),
         target("bounded", "s", {"a"}, {http_rule("r", {"m"})}),
         target("bounded-anew", "s", {"a"}, {http_rule("r", {"m"}), tcp_rule("x")}),
         target("elsewhere", "s", {"a"}, {http_rule("r", {"m"})}),
         target("mixed", "s", {"a", "b"}, {http_rule("r", {"m", "n"}), tcp_rule("x")}),
         target("narrowed", "s", {"a", "b"}, {http_rule("r", {"m"})}),
         target("replaced", "s", {"a"}, {http_rule("r", {"m"})})});
    before.tcp_routes = shared<smi::TcpRoute>(
        {tcp_route("any", {}), tcp_route("apart", {port(1)}), tcp_route("narrow", {port(1)})});
    model::SpecObjects after;
    after.targets = shared<smi::TrafficTarget>(
        {target("added", "s", {"a", "b"}, {http_rule("r", {"m"})}),
         target("bounded", "s", {"a"}, {http_rule("r", {"m", "n"}), tcp_rule("x")}),
         target("bounded-anew", "s", {"a"}, {http_rule("r", {"m"}), tcp_rule("y")}),
         target("elsewhere", "t", {"a"}, {http_rule("r", {"m"})}),
         target("mixed", "s", {"b", "c"}, {http_rule("r", {"n", "o"})}),
         target("narrowed", "s", {"a"}, {http_rule("r", {"m"})}),
         target("replaced", "s", {"b"}, {http_rule("r", {"m"})})});
    after.tcp_routes =
        shared<smi::TcpRoute>({tcp_route("any", {port(1), port(2)}), tcp_route("apart", {port(2)}),
                               tcp_route("narrow", {})});

    const model::SpecObjects both = still_allowed(before, after);
    REQUIRE(both.targets.size() == 4);
    CHECK(*both.targets[0] == *before.targets[0]);
    CHECK(*both.targets[1] ==
          target("bounded", "s", {"a"}, {http_rule("r", {"m"}), tcp_rule("x")}));
    CHECK(*both.targets[2] == target("mixed", "s", {"b"}, {http_rule("r", {"n"})}));
    CHECK(both.targets[3] == after.targets[5]);
    REQUIRE(both.tcp_routes.size() == 2);
    CHECK(both.tcp_routes[0] == after.tcp_routes[0]);
    CHECK(*both.tcp_routes[1] == *before.tcp_routes[2]);
  }

  TEST_CASE("modes are on where both have them on; TLS goes back, but to no older version") {
    MeshConfig before;
    before.proxy.egress = true;
    before.proxy.permissive = true;
    before.proxy.tls.maximum = TlsVersion::kTls12;
    before.proxy.tls.cipher_suites = {"A"};
    MeshConfig after;
    after.proxy.permissive = true;
    after.max_proxies = 7;
    after.proxy.tls.cipher_suites = {"B"};
    CHECK(still_allowed(before, after).proxy.permissive);
    CHECK_FALSE(still_allowed(before, after).proxy.egress);
    CHECK_FALSE(still_allowed(after, before).proxy.egress);
    after.proxy.egress_policy = false;
    CHECK_FALSE(still_allowed(before, after).proxy.egress_policy);
    CHECK_FALSE(still_allowed(after, before).proxy.egress_policy);
    after.proxy.ingress = false;
    CHECK_FALSE(still_allowed(before, after).proxy.ingress);
    CHECK_FALSE(still_allowed(after, before).proxy.ingress);
    CHECK(still_allowed(before, after).max_proxies == 7);
    CHECK(still_allowed(before, after).proxy.tls == before.proxy.tls);
    after.proxy.tls.minimum = TlsVersion::kTls13;
    CHECK(still_allowed(before, after).proxy.tls ==
          TlsSettings{TlsVersion::kTls13, TlsVersion::kTls13, {"A"}, {}});
  }

  TEST_CASE("spans and probes go back, and who is asked about requests does not") {
    MeshConfig before, after;
    before.proxy.external_authorization = {.address = "old.example"};
    after.proxy.tracing = {true, "collector.example", Port{9411}, "/"};
    after.proxy.active_health_checks = true;
    after.proxy.external_authorization = {.enabled = true, .address = "new.example"};
    const MeshConfig both = still_allowed(before, after);
    CHECK(both.proxy.tracing == before.proxy.tracing);
    CHECK_FALSE(both.proxy.active_health_checks);
    CHECK(both.proxy.external_authorization == after.proxy.external_authorization);
  }

  TEST_CASE("a mesh with any of its objects as they were allows nothing that the newest does not") {
    const std::uint64_t start = osm::testing::seed();
    osm::testing::MemoryEndpointsProvider provider;
    for (int i = 0; i < 4; ++i) {
      const std::string n = std::to_string(i);
      provider.set_endpoints(service_name("s" + n), {served_at("10.0.0.1" + n, "a" + n)});
    }
    std::size_t allowed = 0;
    std::size_t wider_before = 0;
    const auto rounds = static_cast<std::uint64_t>(osm::testing::steps(300, 6'000));
    for (std::uint64_t round = 0; round < rounds; ++round) {
      CAPTURE(start + round);
      RandomPolicies policies(start + round);
      const model::SpecObjects former = policies.next();
      const model::SpecObjects after = policies.next();
      const model::SpecObjects before = still_allowed(former, after);
      const TrustDomain domain("cluster.local");
      const auto mesh_of = [&](const model::SpecObjects& objects) {
        return TrialMesh({objects, objects, {{&provider}}, {}, domain}).with_old({});
      };
      const auto newest = mesh_of(after);
      TrialMesh trial({before, after, {{&provider}}, {}, domain});
      const std::vector<ObjectKey> candidates = model::new_in(before, after);
      for (int i = 0; i < 4; ++i) {
        const auto tried = trial.with_old(policies.some_of(candidates));
        CHECK(allowed_beyond(*tried, *newest) == std::vector<std::string>{});
        allowed += allowances(*tried).size();
      }
      wider_before += !allowed_beyond(*mesh_of(former), *newest).empty();
    }
    CHECK(allowed > 3000);      // not by allowing nothing
    CHECK(wider_before > 200);  // there was something to give back
  }
}
