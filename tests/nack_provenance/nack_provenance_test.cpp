// The object behind a NACK is named and left out alone.
#include "nack_provenance/nack_provenance.hpp"

#include <doctest/doctest.h>

#include "nack_provenance/provenance_rig.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/telemetry.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

using namespace osm;
using namespace osm::provenance_test;
using namespace std::chrono_literals;

namespace {

// From now on it refuses every route configuration but those it has.
void refuse_every_change(EnvoyProxy& proxy) {
  proxy.envoy.refuses = [kept = proxy.envoy.applied(XdsType::kRoute)](const auto& resource) {
    if (resource.type != XdsType::kRoute) return false;
    const auto at = kept.find(resource.name);
    return at == kept.end() || at->second->hash != resource.hash;
  };
}

// A policy of this kind, named "zz", that puts the text "zz-bad" into its proxies' configuration.
Policy refused_policy(const GroupKind& kind) {
  const ObjectKey key{kind, values::kNs, "zz"};
  const ServiceName server = values::service_name("s0");
  const ServiceIdentity client = values::identity("client");
  if (kind == kinds::kRetry)
    return {key, {false, {client}, {}}, Retry{client, {server}, {"zz-bad", 1, 1s, 1s}}};
  if (kind == kinds::kEgress)
    return {key,
            {false, {client}, {}},
            Egress{.sources = {client},
                   .hosts = {{{"zz-bad.example", {}}}},
                   .networks = {},
                   .ports = {{values::port(80), EgressProtocol::kHttp}},
                   .route_groups = {},
                   .setting = {}}};
  if (kind == kinds::kIngressBackend) {
    IngressBackend ingress;
    ingress.backends = {{server, values::port(8080), IngressTls{true, {"zz-bad.example"}}}};
    ingress.principals = {"gateway.example"};
    return {key, {false, {}, {server}}, ingress};
  }
  if (kind == kinds::kTelemetry) {
    Telemetry telemetry;
    telemetry.format = {AccessLogFormat::Kind::kText, "zz-bad"};
    return {key, {false, {}, {}}, telemetry};
  }
  UpstreamTrafficSetting setting;
  setting.service = server;
  setting.limits.paths = {{"/zz-bad", HttpLocalRateLimit{{1, 1s, 0}, 429, {}}}};
  return {key, {false, {}, {server}}, setting};
}

}  // namespace

TEST_SUITE("nack_provenance::NackProvenance") {
  TEST_CASE("a refused policy of each kind is named and left out alone") {
    for (const GroupKind& kind : {kinds::kRetry, kinds::kEgress, kinds::kIngressBackend,
                                  kinds::kUpstreamTrafficSetting, kinds::kTelemetry}) {
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
    rig.others_go_on = true;
    for (auto& [name, proxy] : rig.proxies) refuse(*proxy, "/zz-b");
    rig.put_routes("s7", "/zz-bad");
    rig.settle();
    REQUIRE(rig.refused_objects() == "HTTPRouteGroup shop/s7");
    std::string trials = "1", found_by = "osm-1: shop/s7 (RDS): refused rds-inbound.8080";
    SUBCASE("the cause") {}
    SUBCASE("an innocent object") {
      trials = "3", found_by = "";
      const char* lie =
          R"([7,{"kind":"HTTPRouteGroup","group":"specs.smi-spec.io","namespace":"shop","name":"s3"}])";
      REQUIRE(rig.board->publish("refused", lie).ok());
    }
    SUBCASE("a text of another version") {
      trials = "2", found_by = "";
      REQUIRE(rig.board->publish("refused", "2").ok());
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
          "the proxy of shop/s1 refused it (RDS): refused rds-inbound.8080; it is left out until "
          "it changes");
    CHECK(rig.live("s0", "/new"));
    CHECK(rig.live("s2", "/new"));
    CHECK_FALSE(rig.live("s1", "/good"));  // left out, as if it were invalid
    CHECK(rig.controller->metrics.value("osm_nack_total",
                                        {{"type", "RDS"}, {"object_kind", "HTTPRouteGroup"}}) == 1);
    // The three changed objects were candidates; Envoy's text mentioned none of them.
    const auto told = rig.controller->log.lines_with("a proxy refused an object");
    REQUIRE(told.size() == 1);
    CHECK(told.front().fields.at("candidates") == "3");
    CHECK(rig.trials() <= 2);
    for (const Proxy& proxy : rig.list_proxies())
      for (const ProxyTypeState& type : proxy.types) CHECK(type.state != SyncState::kStale);

    SUBCASE("changed to a good one, it is live and the problem is gone") {
      rig.put_routes("s1", "/mended");
      rig.settle();
      CHECK(rig.refused().empty());
      CHECK(rig.live("s1", "/mended"));
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

  TEST_CASE("an object that other proxies accept is not withheld") {
    Rig rig(3);
    // One group of routes for two servers, of which one refuses whatever comes.
    for (const char* name : {"s0", "s1"})
      rig.spec.put(values::target(name, name, {"client"}, {values::http_rule("s2", {"m"})}));
    rig.settle();
    for (auto& [name, resource] : rig.proxies.at("s0")->envoy.applied(XdsType::kRoute))
      REQUIRE(resource->any.find("/good") != std::string::npos);
    refuse(*rig.proxies.at("s0"), "/new");
    rig.put_routes("s2", "/new");
    rig.settle();
    CHECK(rig.refused().empty());
    CHECK(rig.live("s1", "/new"));
    CHECK(rig.live("s2", "/new"));
    CHECK_FALSE(rig.live("s0", "/good"));  // which nobody allows any more
    const auto told =
        rig.controller->log.lines_with("a proxy refuses its configuration, and no object");
    REQUIRE(told.size() == 1);
    CHECK(told.front().fields.at("object") == "HTTPRouteGroup shop/s2");
    CHECK(told.front().fields.at("workload") == "shop/s0");

    // It is left alone for a while, and so is everybody else.
    const double trials = rig.trials();
    rig.settle(10'000ms);
    CHECK(rig.trials() == trials);
  }

  TEST_CASE("an object is withheld only after the other proxies had time to answer") {
    Rig rig(3);
    for (const char* name : {"s0", "s1"})
      rig.spec.put(values::target(name, name, {"client"}, {values::http_rule("s2", {"m"})}));
    rig.spec.remove({kinds::kTrafficTarget, values::kNs, "s2"});
    rig.settle();
    refuse(*rig.proxies.at("s0"), "/new");
    rig.proxies.at("s1")->silent = true;
    rig.put_routes("s2", "/new");
    rig.settle(1000ms);
    CHECK(rig.refused().empty());
    SUBCASE("it accepts: the object stays") {
      rig.proxies.at("s1")->silent = false;
      rig.settle();
      CHECK(rig.refused().empty());
      CHECK(rig.live("s1", "/new"));
    }
    SUBCASE("it goes on saying nothing: the object is withheld") {
      rig.settle(4000ms);
      CHECK(rig.refused_objects().find("HTTPRouteGroup shop/s2") == 0);
    }
    SUBCASE("it refuses as well: the object is withheld") {
      refuse(*rig.proxies.at("s1"), "/new");
      rig.proxies.at("s1")->silent = false;
      rig.settle();
      CHECK(rig.refused_objects().find("HTTPRouteGroup shop/s2") != std::string::npos);
    }
  }

  TEST_CASE("only objects that shape the refusing proxy are withheld") {
    Rig rig(3);
    refuse_every_change(*rig.proxies.at("s0"));
    rig.put_routes("s0", "/new");
    rig.put_routes("s1", "/new");
    rig.put_routes("s2", "/new");
    rig.settle(10'000ms);
    REQUIRE_FALSE(rig.refused().empty());
    for (const Problem& problem : rig.refused()) CHECK(problem.object.name == "s0");
    CHECK(rig.live("s1", "/new"));
    CHECK(rig.live("s2", "/new"));
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
