// The object behind a NACK is named, and left out of the configuration of those that refuse it.
#include "nack_provenance/nack_provenance.hpp"

#include <doctest/doctest.h>

#include "nack_provenance/provenance_rig.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/values/denylist.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/telemetry.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

using namespace osm;
using namespace osm::provenance_test;
using namespace std::chrono_literals;

namespace {

// A policy of this kind, named "zz", that puts the text "zz-bad" into its proxies' configuration.
Policy refused_policy(const GroupKind& kind) {
  const ObjectKey key{kind, values::kNs, "zz"};
  const ServiceName server = values::service_name("s0");
  const ServiceIdentity client = values::identity("client");
  if (kind == kinds::kRetry) return {key, Retry{client, {server}, {"zz-bad", 1, 1s, 1s}}};
  if (kind == kinds::kEgress)
    return {key, Egress{.sources = {client},
                        .hosts = {{{"zz-bad.example", {}}}},
                        .networks = {},
                        .ports = {{values::port(80), EgressProtocol::kHttp}},
                        .route_groups = {},
                        .setting = {}}};
  if (kind == kinds::kIngressBackend) {
    IngressBackend ingress;
    ingress.backends = {{server, values::port(8080), IngressTls{true, {"zz-bad.example"}}}};
    ingress.principals = {"gateway.example"};
    return {key, ingress};
  }
  if (kind == kinds::kTelemetry) {
    Telemetry telemetry;
    telemetry.format = {AccessLogFormat::Kind::kText, "zz-bad"};
    return {key, telemetry};
  }
  UpstreamTrafficSetting setting;
  setting.service = server;
  setting.limits.paths = {{"/zz-bad", HttpLocalRateLimit{{1, 1s, 0}, 429, {}}}};
  return {key, setting};
}

using Refuses = std::function<bool(const ads::EncodedResource&)>;

// An object that makes resources, of which one proxy refuses those that it is in.
struct Refusable {
  std::string proxy;  // "client" or "s0"
  std::function<void(Rig&)> before;
  std::function<void(Rig&)> put;
  Refuses is_in = [](const ads::EncodedResource& resource) {
    return resource.any.find("zz-bad") != std::string::npos;
  };
  std::string name = "shop/zz";
};

// One row of spec::mesh_kinds().
struct KindRow {
  GroupKind kind;
  bool may_be_left_out;
  std::optional<Refusable> object;
  std::string why_none{};  // no object of the kind makes a resource
};

// True for the number 4242, which has no other place in the mesh.
Refuses number_in(XdsType type) {
  return [type](const ads::EncodedResource& resource) {
    return resource.type == type && resource.any.find("\x08\x92\x21") != std::string::npos;
  };
}

Refusable refusable_policy(const std::string& proxy, const Policy& policy,
                           const std::function<void(Rig&)>& before = {}) {
  return {proxy, before, [policy](Rig& rig) { rig.spec.put(policy); }};
}

std::vector<KindRow> kind_rows() {
  const auto permissive = [](Rig& rig) {
    rig.configure([](MeshConfig& config) { config.proxy.permissive = true; });
  };
  const Refusable service{"client", permissive,
                          [](Rig& rig) { rig.spec.put(values::service("zz-bad", "10.9.0.99")); }};
  const Refusable target{
      "s0", {}, [](Rig& rig) {
        rig.spec.put(values::target("zz", "s0", {"zz-bad"}, {values::http_rule("s0", {"m"})}));
      }};
  const Refusable routes{
      "s0",
      [](Rig& rig) {
        rig.spec.put(values::target("uses", "s0", {"client"}, {values::http_rule("zz", {"m"})}));
      },
      [](Rig& rig) { rig.put_routes("zz", "/zz-bad"); }};
  const Refusable tcp_route{
      "s0",
      [](Rig& rig) {
        rig.spec.put(values::service("s0", "10.9.0.1",
                                     {values::service_port("http", 80, 8080),
                                      values::service_port("tcp", 90, 9090, Protocol::kTcp)}));
        rig.spec.put(values::target("uses", "s0", {"zz-bad"}, {values::tcp_rule("zz")}));
      },
      [](Rig& rig) {
        rig.spec.put(smi::TcpRoute{.name = {values::kNs, "zz"}, .ports = {}});
      }};
  const Refusable split{"client",
                        {},
                        [](Rig& rig) {
                          rig.spec.put(values::split("zz", "s0", {{"s1", 4242}, {"s2", 1}}));
                        },
                        number_in(XdsType::kRoute)};
  const Refusable config{
      "client",
      {},
      [](Rig& rig) { rig.configure([](MeshConfig& all) { all.proxy.egress = true; }); },
      [](const ads::EncodedResource& resource) {
        return resource.any.find("passthrough-outbound") != std::string::npos;
      },
      "osm-system/osm-mesh-config"};
  const auto retries = [](Rig& rig) {
    rig.configure([](MeshConfig& all) { all.proxy.retries = true; });
  };
  Telemetry exports;
  exports.open_telemetry = OpenTelemetryLog{{values::kNs, "zz"}, {}};
  const auto exporting = [exports](Rig& rig) {
    rig.spec.put(Policy({kinds::kTelemetry, values::kNs, "uses"}, exports));
  };
  const Policy collector({kinds::kExtensionService, values::kNs, "zz"},
                         ExtensionService{"zz-bad.example", values::port(4317)});
  const Policy denied({kinds::kDenylist, values::kNs, "zz"},
                      Denylist{"stolen", {values::identity("zz-bad")}, {}});
  Refusable order = refusable_policy(
      "client", Policy({kinds::kServiceProvider, values::kNs, "zz"},
                       ServiceProvider{values::service_name("s0"), {{"memory", 4242}}, false}));
  order.is_in = number_in(XdsType::kEndpoint);
  const std::string workload = "its workload has endpoints, which belong to their Services";
  const std::string text = "shop/zz-bad";
  std::vector<KindRow> rows{
      {kinds::kNamespace,
       false,
       {},
       "it says which objects are in the mesh, and is in no resource"},
      {kinds::kService, true, service},
      {kinds::kServiceAccount,
       false,
       {},
       "resources name accounts of workloads and TrafficTargets"},
      {kinds::kTrafficTarget, true, target},
      {kinds::kHttpRouteGroup, true, routes},
      {kinds::kTcpRoute, true, tcp_route},
      {kinds::kTrafficSplit, true, split},
      {kinds::kMeshConfig, false, config},
      {kinds::kMeshRootCertificate, false, {}, "it is in secrets, which are no part of a search"},
      {kinds::kEgress, true, refusable_policy("client", refused_policy(kinds::kEgress))},
      {kinds::kIngressBackend, true,
       refusable_policy("s0", refused_policy(kinds::kIngressBackend))},
      {kinds::kRetry, true, refusable_policy("client", refused_policy(kinds::kRetry), retries)},
      {kinds::kUpstreamTrafficSetting, false,
       refusable_policy("s0", refused_policy(kinds::kUpstreamTrafficSetting))},
      {kinds::kTelemetry, true, refusable_policy("client", refused_policy(kinds::kTelemetry))},
      {kinds::kExtensionService, true, refusable_policy("client", collector, exporting)},
      {kinds::kVirtualMachine, false, {}, workload},
      {kinds::kAzureResource, false, {}, workload},
      {kinds::kDnsResource, false, {}, workload},
      {kinds::kServiceProvider, false, order},
      {kinds::kDenylist, false, refusable_policy("s0", denied, permissive)}};
  rows[1].object->name = "shop/zz-bad";
  return rows;
}

bool holds(Rig& rig, const std::string& proxy, const Refuses& is_in) {
  for (const XdsType type : kXdsTypes)
    for (const auto& [name, resource] : rig.proxies.at(proxy)->envoy.applied(type))
      if (is_in(*resource)) return true;
  return false;
}

}  // namespace

TEST_SUITE("nack_provenance::NackProvenance") {
  TEST_CASE("a refused policy of each kind is named and left out alone") {
    for (const GroupKind& kind :
         {kinds::kRetry, kinds::kEgress, kinds::kIngressBackend, kinds::kTelemetry}) {
      CAPTURE(kind.kind);
      Rig rig(3);
      rig.configure([](MeshConfig& config) { config.proxy.retries = true; });
      for (auto& [name, proxy] : rig.proxies) refuse(*proxy, "zz-bad");
      rig.put_routes("s0", "/new");
      rig.put_routes("s1", "/new");
      rig.spec.put(refused_policy(kind));
      rig.settle(6000ms);
      CHECK(rig.refused_objects() == ObjectKey(kind, values::kNs, "zz").str());
      CHECK(rig.live("s0", "/new"));
      CHECK(rig.live("s1", "/new"));
    }
  }

  TEST_CASE("an object of any kind that one proxy refuses is in force at another of its account") {
    const std::vector<KindRow> rows = kind_rows();
    const spec::Kinds& kinds = spec::mesh_kinds();
    CHECK(std::ranges::equal(rows, kinds, {}, &KindRow::kind, &spec::Kind::name));
    for (const KindRow& row : rows) {
      CAPTURE(row.kind.kind);
      CHECK(nack_provenance::may_be_left_out({row.kind, values::kNs, "zz"}) == row.may_be_left_out);
      CHECK(row.object.has_value() == row.why_none.empty());
      if (!row.object) continue;
      const Refusable& object = *row.object;
      for (const int replicas : {1, 2}) {
        CAPTURE(replicas);
        Rig rig(3);
        rig.add_workload("client-2", {}, "client");
        rig.add_workload("s0-2", {"s0"}, "s0");
        for (const char* name : {"client-2", "s0-2"}) rig.connect(name);
        for (auto& [name, proxy] : rig.proxies)
          proxy->envoy.refuses = [](const auto&) { return false; };
        const std::string victim = object.proxy + "-2";
        std::unique_ptr<Controller> other;
        if (replicas == 2) {
          other = rig.make_controller();
          rig.move(victim, *other);
        }
        if (object.before) object.before(rig);
        rig.settle();
        REQUIRE_FALSE(holds(rig, victim, object.is_in));
        rig.proxies.at(object.proxy)->envoy.refuses = object.is_in;
        object.put(rig);
        rig.settle(6000ms);
        CHECK(holds(rig, victim, object.is_in));
        CHECK_FALSE(holds(rig, object.proxy, object.is_in));
        CHECK(rig.refused_objects() == std::string(row.kind.kind) + " " + object.name);
        REQUIRE(rig.refused().size() == 1);
        const char* effect = row.may_be_left_out ? "they are served without it"
                                                 : "they keep their last good content";
        CHECK(rig.refused().front().cause.find(effect) != std::string::npos);
        // An object that is kept is in the proxy's mesh. What differs without it is frozen.
        REQUIRE(rig.controller->trials->meshes.size() == 1);
        const ads::ProxyMesh& own = rig.controller->trials->meshes.begin()->second;
        const auto newest = rig.controller->loop.snapshots().load();
        CHECK(model::differing(*own.mesh->objects, *newest->objects).empty() ==
              !row.may_be_left_out);
        CHECK((own.without != nullptr) == !row.may_be_left_out);
        if (other) CHECK(other->verdicts.problems().empty());
      }
    }
  }

  TEST_CASE("after a restart the search begins with the objects that shape the proxy") {
    Rig rig(60);
    // A text that no candidate repeats, so that it does not help.
    for (auto& [name, proxy] : rig.proxies) refuse(*proxy, "/zz-b");
    rig.put_routes("s7", "/zz-bad");
    rig.settle();
    REQUIRE(rig.refused_objects() == "HTTPRouteGroup shop/s7");
    rig.restart();
    CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s7");
    const auto told = rig.controller->log.lines_with("a proxy refused an object");
    REQUIRE(told.size() == 1);
    CHECK(std::stoi(told.front().fields.at("candidates")) >= 180);
    CHECK(std::stoi(told.front().fields.at("trials")) <= 4);  // of three objects, and one guess
  }

  TEST_CASE("what another replica found is tried first, and is withheld only if it is the cause") {
    Rig rig(60);
    for (auto& [name, proxy] : rig.proxies) refuse(*proxy, "/zz-b");
    rig.put_routes("s7", "/zz-bad");
    rig.settle();
    REQUIRE(rig.refused_objects() == "HTTPRouteGroup shop/s7");
    std::string trials = "2", found_by;
    SUBCASE("nothing") {}
    SUBCASE("the cause") {
      rig.elsewhere = rig.controller->verdicts.list();
      rig.elsewhere.begin()->second.begin()->second.replica = "osm-2";
      trials = "1", found_by = "osm-2: shop/s7 (RDS): refused rds-inbound.8080";
    }
    SUBCASE("an innocent object") {
      const auto by = rig.controller->verdicts.list().begin()->second;
      rig.elsewhere = {{{kinds::kHttpRouteGroup, values::kNs, "s3"}, by}};
      trials = "3";
    }
    rig.restart();
    CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s7");
    const auto told = rig.controller->log.lines_with("a proxy refused an object");
    REQUIRE(told.size() == 1);
    CHECK(told.front().fields.at("trials") == trials);
    CHECK(told.front().fields.at("found_by") == found_by);
  }

  TEST_CASE("the bad one of three changed objects is named and left out alone") {
    XdsVariant variant = XdsVariant::kSotw;
    SUBCASE("state of the world") {}
    SUBCASE("delta") { variant = XdsVariant::kDelta; }
    Rig rig(3, variant);
    REQUIRE(rig.live("s1", "/good"));
    rig.put_routes("s0", "/new");
    rig.put_routes("s1", "/bad");
    rig.put_routes("s2", "/new");
    rig.settle();

    REQUIRE(rig.refused().size() == 1);
    const Problem problem = rig.refused().front();
    CHECK(problem.object.str() == "HTTPRouteGroup shop/s1");
    CHECK(problem.cause ==
          "refused by 1 of 2 connected proxies: shop/s1 (RDS): refused rds-inbound.8080; they are "
          "served "
          "without it until it changes");
    CHECK(rig.live("s0", "/new"));
    CHECK(rig.live("s2", "/new"));
    CHECK_FALSE(rig.live("s1", "/good"));  // left out there, as if it were invalid
    CHECK(rig.allowed_in_the_mesh("s1", "/bad"));
    CHECK(rig.controller->metrics.value("osm_nack_total",
                                        {{"type", "RDS"}, {"object_kind", "HTTPRouteGroup"}}) == 1);
    // Every object but the MeshConfig was a candidate; the text mentioned none of them.
    const auto told = rig.controller->log.lines_with("a proxy refused an object");
    REQUIRE(told.size() == 1);
    CHECK(told.front().fields.at("candidates") == "9");
    CHECK(rig.trials() == 1);  // of the changed object that shapes the proxy
    for (const Proxy& proxy : rig.list_proxies())
      for (const ProxyTypeState& type : proxy.types) CHECK(type.state != SyncState::kStale);

    SUBCASE("changed to a good one, it is live and the problem is gone") {
      rig.put_routes("s1", "/mended");
      rig.settle();
      CHECK(rig.refused().empty());
      CHECK(rig.live("s1", "/mended"));
    }
    SUBCASE("changed back after a good one, it is refused again and found again") {
      rig.put_routes("s1", "/good");
      rig.settle();
      REQUIRE(rig.refused().empty());
      REQUIRE(rig.live("s1", "/good"));
      rig.put_routes("s1", "/bad");
      rig.settle();
      CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s1");
      CHECK_FALSE(rig.live("s1", "/good"));
    }
    SUBCASE("removed, its problem and the mesh without it are gone") {
      SUBCASE("alone") { rig.spec.remove({kinds::kHttpRouteGroup, values::kNs, "s1"}); }
      SUBCASE("with its namespace") { rig.spec.remove({kinds::kNamespace, "", values::kNs}); }
      rig.settle();
      CHECK(rig.refused().empty());
      CHECK(rig.controller->trials->meshes.empty());
    }
    SUBCASE("changed to another bad one, it is found again") {
      rig.put_routes("s1", "/worse-bad");
      rig.settle();
      CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s1");
      rig.put_routes("s1", "/mended");
      rig.settle();
      CHECK(rig.live("s1", "/mended"));
    }
    SUBCASE("after a restart it is found by the same search") {
      rig.restart();
      CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s1");
      CHECK(rig.live("s0", "/new"));
    }
  }

  TEST_CASE("several refused objects are found one after the other, whichever proxy refuses them") {
    Rig rig(6);
    for (const char* name : {"s1", "s3", "s4"}) rig.put_routes(name, "/bad");
    for (const char* name : {"s0", "s2", "s5"}) rig.put_routes(name, "/new");
    rig.settle(6000ms);
    CHECK(rig.refused_objects() ==
          "HTTPRouteGroup shop/s1, HTTPRouteGroup shop/s3, HTTPRouteGroup shop/s4");
    for (const char* name : {"s0", "s2", "s5"}) CHECK(rig.live(name, "/new"));
  }

  TEST_CASE(
      "only the refusing proxy is sent trials: others are sent the real mesh and nothing else") {
    Rig rig(3);
    const int before = rig.proxies.at("s2")->responses;
    rig.put_routes("s1", "/bad");
    rig.put_routes("s2", "/new");
    rig.settle();
    REQUIRE(rig.refused().size() == 1);
    CHECK(rig.proxies.at("s2")->responses == before + 1);
  }

  TEST_CASE("an object that one proxy refuses is in force at the others, of one replica and two") {
    Rig rig(3);
    // One group of routes for two servers, of which one refuses it.
    for (const char* name : {"s0", "s1"})
      rig.spec.put(values::target(name, name, {"client"}, {values::http_rule("s2", {"m"})}));
    rig.settle();
    std::unique_ptr<Controller> other;
    SUBCASE("one replica") {}
    SUBCASE("two replicas") {
      other = rig.make_controller();
      for (const char* name : {"s1", "s2"}) rig.move(name, *other);
      rig.settle();
    }
    refuse(*rig.proxies.at("s0"), "/new");
    rig.put_routes("s2", "/new");
    rig.settle();
    CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s2");
    CHECK(rig.live("s1", "/new"));
    CHECK(rig.live("s2", "/new"));
    CHECK_FALSE(rig.live("s0", "/good"));  // which nobody allows any more
    if (other) CHECK(other->verdicts.problems().empty());

    SUBCASE("it goes on to follow the mesh") {
      smi::HttpRouteGroup more{.name = {values::kNs, "more"}, .matches = {}};
      more.matches.push_back({.name = "m", .path_regex = "/more", .methods = {}, .headers = {}});
      rig.spec.put(more);
      rig.spec.put(
          values::target("s0", "s0", {"client"},
                         {values::http_rule("s2", {"m"}), values::http_rule("more", {"m"})}));
      rig.settle();
      CHECK(rig.live("s0", "/more"));
      CHECK_FALSE(rig.live("s0", "/new"));
      rig.spec.remove({kinds::kTrafficTarget, values::kNs, "s0"});  // a permission that ends
      rig.settle();
      CHECK_FALSE(rig.live("s0", "/more"));
      CHECK(rig.live("s1", "/new"));
    }
    SUBCASE("it reconnects") {
      const int nacks = rig.proxies.at("s0")->nacks;
      rig.proxies.at("s0")->disconnect();
      rig.connect("s0");
      rig.settle();
      CHECK(rig.proxies.at("s0")->nacks == nacks);
      CHECK_FALSE(rig.live("s0", "/new"));
    }
    SUBCASE("it stays away, and what it refused is forgotten") {
      rig.proxies.at("s0")->disconnect();
      rig.executor.run_for(11min);
      CHECK(rig.refused().empty());
      CHECK(rig.controller->trials->meshes.empty());
    }
    SUBCASE("it leaves the mesh") {
      rig.provider.remove_workload({values::kNs, "s0"});
      rig.settle();
      CHECK(rig.refused().empty());
      CHECK(rig.controller->trials->meshes.empty());
    }
  }

  TEST_CASE("in permissive mode a refused Service is missing at the refusing client alone") {
    Rig rig(3);
    rig.configure([](MeshConfig& config) { config.proxy.permissive = true; });
    refuse(*rig.proxies.at("client"), "shop/odd");
    rig.spec.put(values::service("odd", "10.9.0.99"));
    rig.settle(4000ms);
    CHECK(rig.refused_objects() == "Service shop/odd");
    CHECK(rig.names("s0", "shop/odd"));
    CHECK_FALSE(rig.names("client", "shop/odd"));
    CHECK(rig.names("client", "shop/s1"));
    rig.restart();
    CHECK(rig.refused_objects() == "Service shop/odd");
    CHECK(rig.names("s0", "shop/odd"));
    CHECK_FALSE(rig.names("client", "shop/odd"));
  }

  TEST_CASE("a problem counts the proxies that refuse its object, and names some") {
    Rig rig(5);
    for (int i = 0; i < 5; ++i) {
      const std::string name = "s" + std::to_string(i);
      rig.spec.put(values::target(name, name, {"client"}, {values::http_rule("s0", {"m"})}));
    }
    rig.settle();
    rig.put_routes("s0", "/bad");
    rig.settle(6000ms);
    REQUIRE(rig.refused().size() == 1);
    const std::string cause = rig.refused().front().cause;
    CHECK(
        cause.find("refused by 5 of 6 connected proxies: shop/s0 (RDS): refused rds-inbound.8080; "
                   "shop/s1") == 0);
    CHECK(cause.find("; and 2 more; they are served without it until it changes") != cause.npos);
    CHECK(rig.controller->trials->meshes.size() == 1);  // shared
    CHECK(rig.trials() == 5);
    rig.put_routes("s0", "/mended");
    rig.settle();
    CHECK(rig.refused().empty());
    CHECK(rig.live("s4", "/mended"));
    CHECK(rig.controller->trials->meshes.empty());
  }

  TEST_CASE(
      "200 proxies refuse different objects: 64 are served without theirs, all are reported") {
    constexpr int kServers = 200;
    Rig rig(kServers);
    for (auto& [name, proxy] : rig.proxies) refuse(*proxy, "/" + name + "-bad/");
    for (int i = 0; i < kServers; ++i) {
      const std::string name = "s" + std::to_string(i);
      rig.put_routes(name, "/" + name + "-bad/");
    }
    rig.settle(10'000ms);
    CHECK(rig.refused().size() == kServers);
    CHECK(rig.controller->trials->meshes.size() == nack_provenance::OwnMeshes::kMost);
    int keep = 0;  // what they accepted last
    for (int i = 0; i < kServers; ++i) keep += rig.live("s" + std::to_string(i), "/good");
    CHECK(keep == kServers - static_cast<int>(nack_provenance::OwnMeshes::kMost));
    // The object that one of them refuses is corrected.
    std::string served;
    for (int i = 0; i < kServers && served.empty(); ++i)
      if (!rig.live("s" + std::to_string(i), "/good")) served = "s" + std::to_string(i);
    rig.put_routes(served, "/new");
    rig.settle();
    CHECK(rig.live(served, "/new"));
    CHECK(rig.refused().size() == kServers - 1);
  }

  TEST_CASE("a proxy beyond the 64 meshes of their own gets the place of one that needs none") {
    constexpr std::size_t kMost = nack_provenance::OwnMeshes::kMost;
    Rig rig(static_cast<int>(kMost) + 1);
    const auto servers = [&] {
      std::vector<std::string> names;
      for (std::size_t i = 0; i <= kMost; ++i) names.push_back("s" + std::to_string(i));
      return names;
    }();
    for (const std::string& name : servers) {
      refuse(*rig.proxies.at(name), "/" + name + "-bad/");
      rig.put_routes(name, "/" + name + "-bad/");
    }
    rig.settle(10'000ms);
    std::vector<std::string> served, beyond;
    for (const std::string& name : servers)
      (rig.live(name, "/good") ? beyond : served).push_back(name);
    REQUIRE(served.size() == kMost);
    REQUIRE(beyond.size() == 1);
    const std::string& waiting = beyond.front();
    const auto effect = [&](const std::string& text) {
      for (const Problem& problem : rig.refused())
        if (problem.object.name == waiting) return problem.cause.find(text) != std::string::npos;
      return false;
    };
    CHECK(rig.controller->trials->meshes.size() == kMost);
    CHECK(effect("they keep their last good content"));
    CHECK(rig.controller->log.count("other proxies have the 64 meshes") == 1);

    rig.put_routes(served.front(), "/new");
    rig.settle();
    CHECK(rig.live(served.front(), "/new"));
    CHECK(rig.controller->trials->meshes.size() == kMost - 1);
    CHECK(rig.live(waiting, "/good"));  // until its pause of a minute ends
    rig.settle(60'000ms);
    CHECK(rig.controller->trials->meshes.size() == kMost);
    CHECK_FALSE(rig.live(waiting, "/good"));
    CHECK(effect("they are served without it"));
    CHECK(rig.refused().size() == kMost);
    CHECK(rig.controller->log.count("other proxies have the 64 meshes") == 1);
  }

  TEST_CASE("a proxy that refuses whatever comes is left alone after 16 objects") {
    Rig rig(20);
    for (int i = 0; i < 20; ++i) {
      const std::string name = "s" + std::to_string(i);
      rig.spec.put(values::target(name, "s0", {"client"}, {values::http_rule(name, {"m"})}));
    }
    rig.settle();
    EnvoyProxy& hostile = *rig.proxies.at("s0");
    for (int i = 0; i < 20; ++i)
      rig.put_routes("s" + std::to_string(i), "/bad" + std::to_string(i));
    rig.settle(10'000ms);
    CHECK(rig.refused().size() == nack_provenance::NackProvenance::kRefusedByOne);
    const int nacks = hostile.nacks;
    rig.settle(10'000ms);
    CHECK(hostile.nacks == nacks);
  }

  TEST_CASE("after a refusing proxy hangs up, the search goes on with the next one that refuses") {
    Rig rig(2);
    for (const char* name : {"s0", "s1"})
      rig.spec.put(values::target(name, name, {"client"}, {values::http_rule("s0", {"m"})}));
    rig.settle();
    rig.proxies.at("s1")->silent = true;
    rig.put_routes("s0", "/bad");
    rig.executor.run_for(200ms);
    while (rig.proxies.at("s0")->nacks == 0) REQUIRE(rig.proxies.at("s0")->step());
    rig.proxies.at("s0")->disconnect();
    rig.settle();
    CHECK(rig.refused().empty());
    rig.proxies.at("s1")->silent = false;
    rig.settle();
    CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s0");
  }

  TEST_CASE("a search ends when its object is mended meanwhile") {
    Rig rig(3);
    rig.put_routes("s0", "/new");
    rig.put_routes("s1", "/bad");
    rig.executor.run_for(200ms);
    EnvoyProxy& refusing = *rig.proxies.at("s1");
    while (refusing.nacks == 0) REQUIRE(refusing.step());
    rig.put_routes("s1", "/mended");
    rig.settle();
    CHECK(rig.refused().empty());
    CHECK(rig.live("s1", "/mended"));
    CHECK(rig.live("s0", "/new"));
  }
}
