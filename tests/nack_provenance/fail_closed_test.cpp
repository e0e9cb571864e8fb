// Neither a search for a refused object nor its result allows what the newest mesh forbids.
#include <doctest/doctest.h>

#include "nack_provenance/nack_provenance.hpp"
#include "nack_provenance/provenance_rig.hpp"

using namespace osm;
using namespace osm::provenance_test;
using namespace std::chrono_literals;

namespace {

// From now on it refuses every listener and route configuration but those that it has.
void refuse_whatever_comes(EnvoyProxy& proxy) {
  proxy.envoy.refuses = [listeners = proxy.envoy.applied(XdsType::kListener),
                         routes = proxy.envoy.applied(XdsType::kRoute)](const auto& resource) {
    if (resource.type != XdsType::kListener && resource.type != XdsType::kRoute) return false;
    const auto& kept = resource.type == XdsType::kListener ? listeners : routes;
    const auto at = kept.find(resource.name);
    return at == kept.end() || at->second->hash != resource.hash;
  };
}

std::string cause_told(Rig& rig) {
  const auto told = rig.controller->log.lines_with("a proxy refuses its configuration and keeps");
  return told.empty() ? "" : told.front().fields.at("cause");
}

}  // namespace

TEST_SUITE("nack_provenance::NackProvenance: fail closed") {
  TEST_CASE("permissive mode that is turned off stays off, whatever old object that brings up") {
    Rig rig(3);
    rig.configure([](MeshConfig& config) { config.proxy.permissive = true; });
    rig.put_routes("s1", "/bad");  // of which no proxy hears in this mode
    rig.settle();
    REQUIRE(rig.refused().empty());

    rig.configure([](MeshConfig& config) { config.proxy.permissive = false; });
    CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s1");
    CHECK_FALSE(rig.config_in_force().proxy.permissive);
    CHECK(rig.live("s0", "/good"));
    CHECK(rig.live("s2", "/good"));
  }

  TEST_CASE("a proxy that refuses a stricter mode keeps what it had alone, and that is told") {
    Rig rig(2);
    rig.configure([](MeshConfig& config) { config.proxy.permissive = config.proxy.egress = true; });
    // Also what it has: without its Service nothing else would come.
    rig.proxies.at("s1")->envoy.refuses = [](const auto& resource) {
      return resource.type == XdsType::kListener || resource.type == XdsType::kRoute;
    };
    rig.configure([](MeshConfig& config) { config.proxy.permissive = false; });
    rig.settle(4000ms);
    CHECK_FALSE(rig.config_in_force().proxy.permissive);
    CHECK(rig.live("s0", "/good"));
    CHECK(cause_told(rig).find("of a mode that the MeshConfig has turned off") !=
          std::string::npos);
  }

  TEST_CASE("a MeshConfig is never left out: who refuses it keeps what it has") {
    Rig rig(2);
    const std::string text = "passthrough-outbound";
    refuse(*rig.proxies.at("s1"), text);
    rig.configure([](MeshConfig& config) { config.proxy.egress = true; });
    rig.settle(4000ms);
    CHECK(rig.refused_objects() == "MeshConfig osm-system/osm-mesh-config");
    CHECK(rig.config_in_force().proxy.egress);
    CHECK(rig.names("s0", text));
    CHECK_FALSE(rig.names("s1", text));
    CHECK(rig.live("s1", "/good"));
    // The rest of its configuration goes on.
    rig.put_routes("s1", "/new");
    rig.settle();
    CHECK(rig.live("s1", "/new"));
    CHECK(rig.refused().front().cause.find("they keep their last good content until it changes") !=
          std::string::npos);
    SUBCASE("changed, it is sent again") {
      refuse(*rig.proxies.at("s1"), "nothing of all this");
      rig.configure([](MeshConfig& config) { config.proxy.retries = true; });
      rig.settle();
      CHECK(rig.refused().empty());
      CHECK(rig.names("s1", text));
    }
  }

  TEST_CASE("a mode that brings up an invalid older object is not withheld, the object is") {
    Rig rig(2);
    rig.spec.put(values::service("odd", "10.9.0.99"));
    rig.settle();
    for (auto& [name, proxy] : rig.proxies) refuse(*proxy, "shop/odd");
    rig.configure([](MeshConfig& config) { config.proxy.permissive = true; });
    CHECK(rig.refused_objects() == "Service shop/odd");
    CHECK(rig.config_in_force().proxy.permissive);
  }

  TEST_CASE("TLS settings that are refused are named, and no Service for them") {
    Rig rig(3);
    for (auto& [name, proxy] : rig.proxies) refuse(*proxy, "NO-SUCH-SUITE");
    rig.configure([](MeshConfig& config) {
      config.proxy.tls.minimum = TlsVersion::kTls13;
      config.proxy.tls.cipher_suites = {"NO-SUCH-SUITE"};
    });
    rig.settle(4000ms);
    CHECK(rig.refused_objects() == "MeshConfig osm-system/osm-mesh-config");
    CHECK(rig.live("s0", "/good"));
    CHECK(rig.config_in_force().proxy.tls.minimum == TlsVersion::kTls13);
    rig.restart();  // now nobody knows what the proxies have
    rig.settle(4000ms);
    CHECK(rig.refused_objects() == "MeshConfig osm-system/osm-mesh-config");
  }

  TEST_CASE("a limit that a client refuses stays in force at its server and at other clients") {
    XdsVariant variant = XdsVariant::kSotw;
    SUBCASE("state of the world") {}
    SUBCASE("delta") { variant = XdsVariant::kDelta; }
    Rig rig(2, variant);
    rig.add_workload("other", {});
    rig.connect("other");
    rig.spec.put(values::target("s0", "s0", {"client", "other"}, {values::http_rule("s0", {"m"})}));
    UpstreamTrafficSetting setting;
    setting.service = values::service_name("s0");
    setting.limits.paths = {{"/zz-limit", HttpLocalRateLimit{{1, 1s, 0}, 429, {}}}};
    setting.limits.connections.max_connections = 4242;
    const Policy limit({kinds::kUpstreamTrafficSetting, values::kNs, "zz"}, setting);
    const auto refuses_limit = [](const ads::EncodedResource& resource) {
      return resource.type == XdsType::kCluster &&
             resource.any.find("\x08\x92\x21") != std::string::npos;
    };
    rig.settle();
    rig.proxies.at("client")->envoy.refuses = refuses_limit;
    rig.spec.put(limit);
    rig.settle(4000ms);
    const auto check = [&] {
      CHECK(rig.refused_objects() == "UpstreamTrafficSetting shop/zz");
      CHECK(rig.live("s0", "/zz-limit"));
      bool limited = false;
      for (const auto& [name, cluster] : rig.proxies.at("other")->envoy.applied(XdsType::kCluster))
        limited |= refuses_limit(*cluster);
      CHECK(limited);
      CHECK(rig.names("client", "shop/s1", {XdsType::kCluster}));
    };
    check();
    CHECK(rig.names("client", "shop/s0", {XdsType::kCluster}));  // as it was
    // The rest of the refusing client's configuration goes on.
    rig.spec.remove({kinds::kTrafficTarget, values::kNs, "s1"});
    rig.settle();
    CHECK_FALSE(rig.names("client", "shop/s1", {XdsType::kCluster}));
    rig.spec.put(values::target("s1", "s1", {"client"}, {values::http_rule("s1", {"m"})}));
    rig.settle();
    check();
    SUBCASE("after a restart") {
      rig.restart();
      rig.settle(4000ms);
      check();
    }
    SUBCASE("a proxy that starts with the limit in the mesh is not sent what contains it") {
      rig.add_workload("late", {});
      rig.proxies.at("late")->envoy.refuses = refuses_limit;
      rig.connect("late");
      rig.spec.put(values::target("s0", "s0", {"client", "late", "other"},
                                  {values::http_rule("s0", {"m"})}));
      rig.spec.put(
          values::target("s1", "s1", {"client", "late"}, {values::http_rule("s1", {"m"})}));
      rig.settle(4000ms);
      CHECK_FALSE(rig.names("late", "shop/s0", {XdsType::kCluster}));
      CHECK(rig.names("late", "shop/s1", {XdsType::kCluster}));
      check();
    }
  }

  TEST_CASE("a server that refuses its limit keeps what it has, and never serves without it") {
    Rig rig(2);
    UpstreamTrafficSetting setting;
    setting.service = values::service_name("s0");
    const auto put_limit = [&](const std::string& path) {
      setting.limits.paths = {{path, HttpLocalRateLimit{{1, 1s, 0}, 429, {}}}};
      rig.spec.put(Policy({kinds::kUpstreamTrafficSetting, values::kNs, "zz"}, setting));
    };
    put_limit("/first");
    rig.settle();
    REQUIRE(rig.live("s0", "/first"));
    EnvoyProxy& server = *rig.proxies.at("s0");
    bool unlimited = false;  // ever
    server.envoy.refuses = [&](const ads::EncodedResource& resource) {
      if (resource.type != XdsType::kRoute || resource.name.find("inbound") == std::string::npos)
        return false;
      const bool second = resource.any.find("/second") != std::string::npos;
      unlimited |= !second && resource.any.find("/first") == std::string::npos &&
                   resource.any.find("/good") != std::string::npos;
      return second;
    };
    put_limit("/second");
    rig.settle(4000ms);
    CHECK(rig.refused_objects() == "UpstreamTrafficSetting shop/zz");
    CHECK(rig.live("s0", "/first"));
    CHECK(rig.live("s0", "/good"));
    CHECK_FALSE(unlimited);
    put_limit("/third");
    rig.settle();
    CHECK(rig.refused().empty());
    CHECK(rig.live("s0", "/third"));
  }

  TEST_CASE("an object that was narrowed comes back in no trial") {
    Rig rig(3);
    rig.add_workload("thief", {});
    rig.connect("thief");
    // "s1" lets two in, by two matches; a group for all three is what is going to be refused.
    smi::HttpRouteGroup group = values::routes("s1", {"m", "n"});
    rig.spec.put(group);
    rig.spec.put(
        values::target("s1", "s1", {"client", "thief"},
                       {values::http_rule("s1", {"m", "n"}), values::http_rule("s0", {"m"})}));
    rig.settle();
    SUBCASE("a source") {
      rig.spec.put(
          values::target("s1", "s1", {"client"},
                         {values::http_rule("s1", {"m", "n"}), values::http_rule("s0", {"m"})}));
    }
    SUBCASE("a rule, while another source is added") {
      rig.add_workload("late", {});
      rig.spec.put(values::target("s1", "s1", {"client", "late", "thief"},
                                  {values::http_rule("s0", {"m"})}));
    }
    SUBCASE("a match, while another is added") {
      group.matches.pop_back();
      group.matches.push_back(values::routes("s1", {"o"}).matches.front());
      rig.spec.put(group);
    }
    SUBCASE("permissive mode") {
      rig.configure([](MeshConfig& config) { config.proxy.permissive = true; });
      rig.spec.set_mesh_config({});
    }
    SUBCASE("a Service's port") {
      rig.spec.put(values::service(
          "s1", "10.9.0.2",
          {values::service_port("http", 80, 8080), values::service_port("more", 81, 8081)}));
      rig.settle();
      rig.spec.put(values::service("s1", "10.9.0.77"));
    }
    SUBCASE("a Service's path rules") {
      Service service = values::service("s1", "10.9.0.2");
      service.http_paths = HttpPaths::kUnchecked;
      rig.spec.put(service);
      rig.settle();
      service.http_paths = HttpPaths::kStrict;
      rig.spec.put(service);
    }
    rig.put_routes("s0", "/bad");
    rig.settle(4000ms);
    CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s0");
    CHECK(rig.trials() > 0);
  }

  TEST_CASE("a denied account is let in by no trial, and no Denylist is ever left out") {
    Rig rig(3);
    rig.add_workload("thief", {});
    rig.connect("thief");
    rig.spec.put(values::target("s1", "s1", {"client", "thief"},
                                {values::http_rule("s1", {"m"}), values::http_rule("s0", {"m"})}));
    bool permissive = false;
    SUBCASE("SMI mode") {}
    SUBCASE("permissive mode") { permissive = true; }
    rig.configure([&](MeshConfig& config) { config.proxy.permissive = permissive; });
    rig.settle();
    const auto deny = [&](const char* account) {
      rig.spec.put(Policy({kinds::kDenylist, "osm-system", account},
                          Denylist{"stolen", {values::identity(account)}, {}}));
    };
    deny("thief");
    if (permissive) {
      for (auto& [name, proxy] : rig.proxies) refuse_whatever_comes(*proxy);
    } else {
      rig.put_routes("s0", "/bad");
    }
    rig.executor.run_for(200ms);
    EnvoyProxy& refusing = *rig.proxies.at("s0");
    while (rig.trials() == 0 && refusing.step()) continue;
    deny("other");  // while the search runs
    rig.settle(6000ms);
    CHECK(rig.trials() > 0);
    for (const Problem& problem : rig.refused())
      if (problem.object.is(kinds::kDenylist))
        CHECK(problem.cause.find("they keep their last good content") != std::string::npos);
    CHECK(rig.controller->loop.snapshots().load()->denied->accounts.size() == 2);
  }

  TEST_CASE("permissions that end during a trial end for the canary too") {
    Rig rig(4);
    rig.put_routes("s0", "/new");
    rig.put_routes("s1", "/bad");
    rig.executor.run_for(200ms);
    EnvoyProxy& refusing = *rig.proxies.at("s1");
    while (rig.trials() == 0) REQUIRE(refusing.step());
    rig.spec.remove({kinds::kTrafficTarget, values::kNs, "s3"});  // no candidate
    rig.settle(4000ms);
    CHECK(rig.refused_objects() == "HTTPRouteGroup shop/s1");
    CHECK(rig.live("s0", "/new"));
  }
}
