#include "model/links.hpp"

#include <string>

#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::model {
namespace {

Claim whole(const ServiceName& service, const std::string& verb, const char* field) {
  return {service, verb + " Service " + service.str(), field};
}

}  // namespace

Links links_of(const smi::TrafficTarget& target) {
  Links out{{target.name, identity_of(target.destination)}, {}, {}, true};
  for (const ServiceAccount& source : target.sources) out.entries.push_back(identity_of(source));
  for (const smi::TrafficTargetRule& rule : target.rules)
    out.reads.emplace_back(
        rule.kind == smi::RouteKind::kTcpRoute ? kinds::kTcpRoute : kinds::kHttpRouteGroup,
        target.name.ns, rule.name);
  return out;
}

Links links_of(const smi::TrafficSplit& split) {
  Links out{{split.service}, {}, {whole(split.service, "splits", "spec.service")}, true};
  for (const smi::SplitBackend& backend : split.backends)
    out.entries.push_back(ServiceName{split.name.ns, backend.service});
  return out;
}

Links links_of(const Policy& policy) {
  const std::string& ns = policy.key.ns;
  Links out{{}, {}, {}, true};
  if (const auto* retry = policy.get<Retry>()) {
    out.entries = {retry->source};
    const std::string verb = "says how " + retry->source.str() + " repeats its requests to";
    for (const ServiceName& service : retry->destinations)
      out.claims.push_back(whole(service, verb, "spec.destinations"));
  } else if (const auto* egress = policy.get<Egress>()) {
    out.entries.assign(egress->sources.begin(), egress->sources.end());
    if (egress->route_groups)
      for (const std::string& name : *egress->route_groups)
        out.reads.emplace_back(kinds::kHttpRouteGroup, ns, name);
    if (!egress->setting.empty())
      out.reads.emplace_back(kinds::kUpstreamTrafficSetting, ns, egress->setting);
  } else if (const auto* ingress = policy.get<IngressBackend>()) {
    for (const auto& [service, port, tls, place] : ingress->backends) {
      out.entries.push_back(service);
      out.claims.push_back({service,
                            "has backend " + service.name + " port " + std::to_string(number(port)),
                            "spec.backends[" + std::to_string(place) + ']'});
    }
  } else if (const auto* setting = policy.get<UpstreamTrafficSetting>()) {
    if (setting->service.empty()) return out;
    out.entries = {setting->service};
    out.claims = {whole(setting->service, "limits", "spec.host")};
  } else if (const auto* order = policy.get<ServiceProvider>()) {
    out.entries = {order->service};
    out.claims = {whole(order->service, "orders the providers of", "spec.service")};
  } else if (const auto* telemetry = policy.get<Telemetry>()) {
    out.entries = {TelemetryName{ns, policy.key.name}};
    if (const auto& log = telemetry->open_telemetry)
      out.reads.emplace_back(kinds::kExtensionService, log->service.ns, log->service.name);
  } else {
    out.origins = false;
    if (policy.get<ExtensionService>() != nullptr) return out;
    out.entries.assign(policy.concerned.begin(), policy.concerned.end());  // an embedder's kind
    if (out.entries.empty()) out.entries = {std::monostate()};
  }
  return out;
}

}  // namespace osm::inline v1::model
