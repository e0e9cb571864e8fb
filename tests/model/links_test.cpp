// Each kind of object names the entries that it shapes, the objects that it reads, and its claims;
// and if its values keep an Origin.
#include "model/links.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "osm/values/denylist.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

using namespace osm;
using model::EntryKey;
using model::Links;

namespace {

const ServiceName kApi{"shop", "api"};
const ServiceName kWeb{"shop", "web"};
const ServiceIdentity kBuyer{"shop", "buyer"};
const EntryKey kMesh;
const Links kNothing{{}, {}, {}, true};

template <class T>
Links of(const GroupKind& kind, T content, std::vector<ServiceIdentity> concerned = {}) {
  return model::links_of(Policy({kind, "shop", "one"}, std::move(content), std::move(concerned)));
}

}  // namespace

TEST_SUITE("model::links_of") {
  TEST_CASE("a TrafficTarget shapes its entry and both sides, and reads its routes") {
    const smi::TrafficTarget target{{"shop", "one"},
                                    {"shop", "server"},
                                    {{"edge", "a"}, {"shop", "buyer"}},
                                    {{smi::RouteKind::kHttpRouteGroup, "web", {"m"}, 0},
                                     {smi::RouteKind::kTcpRoute, "raw", {}, 1}}};
    CHECK(model::links_of(target) ==
          Links{{smi::ObjectName{"shop", "one"}, ServiceIdentity{"shop", "server"},
                 ServiceIdentity{"edge", "a"}, kBuyer},
                {{kinds::kHttpRouteGroup, "shop", "web"}, {kinds::kTcpRoute, "shop", "raw"}},
                {},
                true});
  }

  TEST_CASE("a TrafficSplit shapes its apex and its backends, a Service itself, routes nothing") {
    CHECK(model::links_of(smi::TrafficSplit{{"shop", "one"}, kApi, {{"api", 1}, {"web", 1}}}) ==
          Links{{kApi, kApi, kWeb}, {}, {{kApi, "splits Service shop/api", "spec.service"}}, true});
    Service service;
    service.name = kApi;
    CHECK(model::links_of(service) == Links{{kApi}, {}, {}, true});
    CHECK(model::links_of(smi::HttpRouteGroup{{"shop", "one"}, {smi::HttpMatch()}}) == Links{});
    CHECK(model::links_of(smi::TcpRoute{{"shop", "one"}, {Port{1}}}) == Links{});
  }

  TEST_CASE("policies of clients shape their sources; an Egress reads what it names") {
    const std::string says = "says how shop/buyer repeats its requests to Service ";
    CHECK(of(kinds::kRetry, Retry{kBuyer, {kApi, kWeb}, {}}) ==
          Links{{kBuyer},
                {},
                {{kApi, says + "shop/api", "spec.destinations"},
                 {kWeb, says + "shop/web", "spec.destinations"}},
                true});
    Egress egress;
    egress.sources = {kBuyer, {"shop", "other"}};
    CHECK(of(kinds::kEgress, egress) ==
          Links{{kBuyer, ServiceIdentity{"shop", "other"}}, {}, {}, true});
    egress.route_groups = {"paths"};
    egress.setting = "slow";
    CHECK(of(kinds::kEgress, egress).reads ==
          std::vector<ObjectKey>{{kinds::kHttpRouteGroup, "shop", "paths"},
                                 {kinds::kUpstreamTrafficSetting, "shop", "slow"}});
  }

  TEST_CASE("policies of servers shape their Services") {
    IngressBackend ingress;
    ingress.backends = {{kApi, Port{80}, {}, 0}, {kWeb, Port{80}, {}, 2}};
    ingress.services = {{{"edge", "gateway"}, 0}};
    CHECK(of(kinds::kIngressBackend, ingress) ==
          Links{{kApi, kWeb},
                {},
                {{kApi, "has backend api port 80", "spec.backends[0]"},
                 {kWeb, "has backend web port 80", "spec.backends[2]"}},
                true});
    CHECK(of(kinds::kIngressBackend, IngressBackend{}) == kNothing);
    CHECK(of(kinds::kUpstreamTrafficSetting, UpstreamTrafficSetting{kApi, {}}) ==
          Links{{kApi}, {}, {{kApi, "limits Service shop/api", "spec.host"}}, true});
    CHECK(of(kinds::kUpstreamTrafficSetting, UpstreamTrafficSetting{}) == kNothing);  // an Egress's
    CHECK(of(kinds::kServiceProvider, ServiceProvider{kApi, {{"vm", {}}}, false}) ==
          Links{{kApi},
                {},
                {{kApi, "orders the providers of Service shop/api", "spec.service"}},
                true});
  }

  TEST_CASE("a Telemetry shapes its entry and reads its ExtensionService, which shapes nothing") {
    Telemetry telemetry;
    CHECK(of(kinds::kTelemetry, telemetry) == Links{{TelemetryName{"shop", "one"}}, {}, {}, true});
    telemetry.open_telemetry = OpenTelemetryLog{{"osm-system", "collector"}, {}};
    CHECK(of(kinds::kTelemetry, telemetry).reads ==
          std::vector<ObjectKey>{{kinds::kExtensionService, "osm-system", "collector"}});
    CHECK(of(kinds::kExtensionService, ExtensionService{}) == Links{});
  }

  TEST_CASE("a Denylist and an embedder's kind shape the mesh, unless it names accounts") {
    CHECK(of(kinds::kDenylist, Denylist{}) == Links{{kMesh}, {}});
    CHECK(of({"vendor.example", "Greeting"}, std::string("hi")) == Links{{kMesh}, {}});
    CHECK(of({"vendor.example", "Greeting"}, std::string("hi"), {kBuyer}) == Links{{kBuyer}, {}});
  }
}
