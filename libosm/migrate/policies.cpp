// OSM's own policies: the flag of IngressBackends, and host names of limits.
#include <algorithm>
#include <memory>

#include "base/json.hpp"
#include "migrate/differences.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/service.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::migrate {
namespace {

// OSM v1.2 did not read the flag.
Finding ingress_finding() {
  return {.verdict = Verdict::kNothing,
          .access = Access::kRefused,
          .field = "spec.backends",
          .reason =
              "no sidecar obeys it, since the MeshConfig's "
              "spec.featureFlags.enableIngressBackendPolicy is false; OSM v1.2 did not read the "
              "flag",
          .remedy = "Set the flag to true, or delete the IngressBackend."};
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

// Settings of Services of other namespaces limited them in OSM v1.2. Those that an Egress names are
// used here too.
Finding elsewhere_finding() {
  return {.verdict = Verdict::kNothing,
          .field = "spec.host",
          .reason =
              "the host is no Service of the object's own namespace, and no Egress names the "
              "object: an object limits its own namespace's Services only",
          .remedy = "Write the object into the namespace of the Service."};
}

bool limits_elsewhere(const Mesh& mesh, const ObjectKey& key) {
  const auto at = mesh.decoded.policies.entries.find(key);
  if (at == mesh.decoded.policies.entries.end() || !at->second.value) return false;
  const auto* setting = at->second.value->get<UpstreamTrafficSetting>();
  const std::string host = text_at(map_at(*mesh.object(key).document, "spec"), "host");
  if (setting == nullptr || setting->service != ServiceName() ||
      !host.ends_with(".svc.cluster.local"))
    return false;
  const auto& policies = mesh.view.policies;
  return std::none_of(policies.begin(), policies.end(),
                      [&](const std::shared_ptr<const Policy>& policy) {
                        const auto* egress = policy->get<Egress>();
                        return egress && policy->key.ns == key.ns && egress->setting == key.name;
                      });
}

}  // namespace

void compare_policies(const Mesh& mesh, Differences& out) {
  for (const auto& [key, object] : mesh.objects) {
    const spec::Kind* kind = known_kind(*object);
    if (key.is(kinds::kUpstreamTrafficSetting) && has_short_host(*object))
      out.add(*object, short_host_finding());
    if (key.is(kinds::kUpstreamTrafficSetting) && limits_elsewhere(mesh, key))
      out.add(*object, elsewhere_finding());
    if (key.is(kinds::kIngressBackend) && kind != nullptr && !mesh.view.config->proxy.ingress)
      out.add(*object, ingress_finding());
  }
}

}  // namespace osm::inline v1::migrate
