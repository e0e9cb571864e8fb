// OSM's own policies of kinds that libosm checks and stores, and that nothing obeys.
#include <set>

#include "base/json.hpp"
#include "migrate/differences.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1::migrate {
namespace {

namespace json = boost::json;

// The UpstreamTrafficSettings that Egresses name.
std::set<ObjectKey> settings_of_egress(const Mesh& mesh) {
  std::set<ObjectKey> out;
  for (const auto& [key, object] : mesh.objects)
    if (key.is(kinds::kEgress))
      for (const json::value& match : list_at(map_at(*object->document, "spec"), "matches"))
        if (text_at(match, "kind") == kinds::kUpstreamTrafficSetting.kind)
          out.insert({kinds::kUpstreamTrafficSetting, key.ns, text_at(match, "name")});
  return out;
}

Finding egress_finding(const Mesh& mesh, const Object& egress) {
  Finding finding{.verdict = Verdict::kNothing,
                  .access = Access::kRefused,
                  .field = "spec",
                  .reason =
                      "no sidecar follows an Egress: its hosts and addresses are refused, "
                      "since enableEgress is off",
                  .remedy =
                      "Add the addresses to spec.traffic.outboundIPRangeExclusionList of the "
                      "MeshConfig, or to the pods' annotation "
                      "openservicemesh.io/outbound-ip-range-exclusion-list; or set "
                      "spec.traffic.enableEgress: true, which allows every address."};
  if (!mesh.before.egress) return finding;
  bool http = false;
  for (const json::value& port : list_at(map_at(*egress.document, "spec"), "ports"))
    http = http || text_at(port, "protocol") == "http";
  finding.access = http ? Access::kAllowed : Access::kSame;
  finding.reason = http ? "no sidecar follows an Egress: enableEgress is on and allows every "
                          "host. OSM v1.2 answered 404 for other hosts on the http ports"
                        : "no sidecar follows an Egress: enableEgress is on and allows every "
                          "address, as in OSM v1.2";
  finding.remedy = http ? "Refuse the other hosts in a network policy or a firewall, if they must "
                          "stay refused; then delete the Egress."
                        : "Delete the Egress.";
  return finding;
}

Finding ingress_finding() {
  return {.verdict = Verdict::kNothing,
          .access = Access::kRefused,
          .field = "spec.backends",
          .reason =
              "no sidecar follows an IngressBackend: requests of the sources, which have no "
              "sidecar, are refused",
          .remedy =
              "Give the gateway's pods a sidecar and allow their account in a TrafficTarget; "
              "or exclude the port by the pods' annotation "
              "openservicemesh.io/inbound-port-exclusion-list: then everybody may call it."};
}

Finding setting_finding(const Object& setting) {
  const auto& spec = map_at(*setting.document, "spec");
  bool limits = !map_at(spec, "rateLimit").empty();
  for (const json::value& route : list_at(spec, "httpRoutes"))
    limits = limits || !map_at(route, "rateLimit").empty();
  if (!limits)
    return {.verdict = Verdict::kNothing,
            .field = "spec.connectionSettings",
            .reason = "no sidecar follows an UpstreamTrafficSetting: Envoy's limits are in force",
            .remedy = "Delete the object."};
  return {.verdict = Verdict::kNothing,
          .access = Access::kAllowed,
          .field = member(spec, "rateLimit") != nullptr ? "spec.rateLimit" : "spec.httpRoutes",
          .reason =
              "no sidecar follows an UpstreamTrafficSetting: requests and connections above "
              "the rate limit are allowed",
          .remedy = "Limit rates in the application or at a gateway, and delete the object."};
}

}  // namespace

void compare_policies(const Mesh& mesh, Differences& out) {
  const auto of_egress = settings_of_egress(mesh);
  for (const auto& [key, object] : mesh.objects) {
    const spec::Kind* kind = known_kind(*object);
    if (kind == nullptr || kind->obeyed) continue;
    if (key.is(kinds::kEgress) && mesh.before.egress_policy)
      out.add(*object, egress_finding(mesh, *object));
    if (key.is(kinds::kIngressBackend)) out.add(*object, ingress_finding());
    // OSM v1.2 found a setting by the full host name of a Service, or by an Egress.
    const std::string host = text_at(map_at(*object->document, "spec"), "host");
    if (key.is(kinds::kUpstreamTrafficSetting) &&
        (host.ends_with("." + key.ns + ".svc.cluster.local") || of_egress.contains(key)))
      out.add(*object, setting_finding(*object));
  }
}

}  // namespace osm::inline v1::migrate
