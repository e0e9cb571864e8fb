// Egress objects of OSM v1.2.
#include <algorithm>

#include "migrate/differences.hpp"
#include "osm/values/egress.hpp"

namespace osm::inline v1::migrate {
namespace {

bool opens(const Egress& egress, EgressProtocol protocol) {
  return std::any_of(egress.ports.begin(), egress.ports.end(),
                     [&](const EgressPort& port) { return port.protocol == protocol; });
}

// With global egress on.
Finding idle_finding(const Egress& egress) {
  const bool http = opens(egress, EgressProtocol::kHttp);
  return {.verdict = Verdict::kNothing,
          .access = http ? Access::kAllowed : Access::kSame,
          .field = "spec",
          .reason = http
                        ? "enableEgress is on and allows every host here, so that an Egress has no "
                          "effect. OSM v1.2 answered 404 for other hosts on its http ports"
                        : "enableEgress is on and allows every address, as in OSM v1.2",
          .remedy = http ? "Set spec.traffic.enableEgress: false and write an Egress for "
                           "everything that may be called, if the other hosts must stay refused; "
                           "else delete the Egress."
                         : "Delete the Egress, or set spec.traffic.enableEgress: false."};
}

Finding address_finding() {
  return {.verdict = Verdict::kLess,
          .access = Access::kRefused,
          .field = "spec.ipAddresses",
          .reason =
              "ipAddresses bound the http ports too: a request to another address is refused. OSM "
              "v1.2 ignored them for http",
          .remedy = "Write the http ports into an Egress of their own, without ipAddresses."};
}

Finding any_name_finding() {
  return {.verdict = Verdict::kLess,
          .access = Access::kRefused,
          .field = "spec.ports",
          .reason =
              "an https port takes TLS connections only. Without hosts OSM v1.2 let every "
              "connection pass",
          .remedy = "Give the port the protocol tcp, if other connections must pass."};
}

Finding default_finding() {
  return {.verdict = Verdict::kMore,
          .access = Access::kAllowed,
          .field = "spec",
          .reason =
              "the MeshConfig does not say spec.featureFlags.enableEgressPolicy. Here that means "
              "true, and in OSM v1.2 false, so that the Egress had no effect",
          .remedy = "Set spec.featureFlags.enableEgressPolicy: false, or delete the Egress."};
}

void compare(const Mesh& mesh, const Egress& egress, const Object& object, Differences& out) {
  if (!mesh.before.egress_policy) {
    if (mesh.view.config->proxy.egress_policy && !mesh.before.egress)
      out.add(object, default_finding());
    return;
  }
  if (mesh.before.egress) return out.add(object, idle_finding(egress));
  if (egress.networks && opens(egress, EgressProtocol::kHttp)) out.add(object, address_finding());
  if (!egress.hosts && opens(egress, EgressProtocol::kHttps)) out.add(object, any_name_finding());
}

}  // namespace

void compare_egress(const Mesh& mesh, Differences& out) {
  for (const auto& [key, entry] : mesh.decoded.policies.entries)
    if (entry.value)
      if (const auto* egress = entry.value->get<Egress>())
        compare(mesh, *egress, mesh.object(key), out);
}

}  // namespace osm::inline v1::migrate
