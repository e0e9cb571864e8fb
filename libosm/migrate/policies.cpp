// OSM's own policies: kinds that nothing obeys here, and host names of limits.
#include "base/json.hpp"
#include "migrate/differences.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1::migrate {
namespace {

namespace json = boost::json;

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

// OSM v1.2 found a setting by the full name of a Service only, and here every form counts.
bool has_short_host(const Object& setting) {
  const std::string host = text_at(map_at(*setting.document, "spec"), "host");
  const std::string ns = "." + setting.key.ns;
  return host.ends_with(ns) || host.ends_with(ns + ".svc");
}

Finding short_host_finding() {
  return {.verdict = Verdict::kMore,
          .access = Access::kRefused,
          .field = "spec.host",
          .reason =
              "the Service is limited: OSM v1.2 found it by the form "
              "<name>.<namespace>.svc.cluster.local only, so nothing was limited",
          .remedy = "Delete the object, or write the full host name if the limits are meant."};
}

}  // namespace

void compare_policies(const Mesh& mesh, Differences& out) {
  for (const auto& [key, object] : mesh.objects) {
    const spec::Kind* kind = known_kind(*object);
    if (key.is(kinds::kUpstreamTrafficSetting) && has_short_host(*object))
      out.add(*object, short_host_finding());
    if (kind == nullptr || kind->obeyed) continue;
    if (key.is(kinds::kEgress) && mesh.before.egress_policy)
      out.add(*object, egress_finding(mesh, *object));
    if (key.is(kinds::kIngressBackend)) out.add(*object, ingress_finding());
  }
}

}  // namespace osm::inline v1::migrate
