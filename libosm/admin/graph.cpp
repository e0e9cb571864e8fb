#include "admin/handlers.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "admin/admin_json.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

constexpr const char* kAnyAccount = "any account of the mesh";
constexpr const char* kAnyHost = "any host outside of the mesh";
constexpr const char* kMutualTls = "mTLS";
constexpr const char* kNone = "none";

struct Edge {
  std::string source, destination, encryption;
  std::string object;  // that permits it; empty: the MeshConfig
  std::string detail;

  auto operator<=>(const Edge&) const = default;
};
using Edges = std::set<Edge>;

std::string ports_text(const std::vector<Port>& ports) {
  std::string text;
  for (const Port port : ports)
    text += (text.empty() ? " port " : ", ") + std::to_string(number(port));
  return text;
}

std::string detail_of(const TrafficPolicy& policy) {
  std::string detail;
  if (!policy.http_routes.empty())
    detail = "HTTP, " + std::to_string(policy.http_routes.size()) + " routes";
  if (policy.tcp) detail += std::string(detail.empty() ? "" : "; ") + "TCP";
  return detail + ports_text(policy.tcp_ports);
}

void add_targets(const std::vector<TrafficPolicy>& policies, Edges& edges) {
  for (const TrafficPolicy& policy : policies) {
    if (policy.http_routes.empty() && !policy.tcp) continue;  // its rules lead to nothing
    edges.insert({policy.source.identity.str(), policy.destination.identity.str(), kMutualTls,
                  "TrafficTarget " + policy.target.str(), detail_of(policy)});
  }
}

const char* encryption_of(EgressProtocol protocol) {
  if (protocol == EgressProtocol::kHttps) return "the application's TLS";
  return protocol == EgressProtocol::kHttp ? kNone : "the application's choice";
}

std::vector<std::string> destinations_of(const Egress& egress) {
  std::vector<std::string> names;
  if (egress.hosts)
    for (const EgressHost& host : *egress.hosts) names.push_back(host.name);
  else if (egress.networks)
    names.emplace_back("addresses of the Egress");
  else
    names.emplace_back(kAnyHost);
  return names;
}

void add_egress(const Policy& policy, const Egress& egress, Edges& edges) {
  const std::vector<std::string> destinations = destinations_of(egress);
  for (const ServiceIdentity& source : egress.sources)
    for (const std::string& destination : destinations)
      for (const EgressPort& port : egress.ports)
        edges.insert({source.str(), destination, encryption_of(port.protocol), policy.key.str(),
                      "port " + std::to_string(number(port.number))});
}

std::vector<std::string> sources_of(const IngressBackend& ingress) {
  std::vector<std::string> names;
  for (const IngressSourceService& source : ingress.services)
    names.push_back("Service " + source.service.str());
  names.insert(names.end(), ingress.networks.begin(), ingress.networks.end());
  if (names.empty()) names = ingress.principals;
  return names;
}

void add_ingress(const Policy& policy, const IngressBackend& ingress, Edges& edges) {
  for (const std::string& source : sources_of(ingress))
    for (const IngressTarget& target : ingress.backends)
      edges.insert({source, "Service " + target.service.str(), encryption_text(target.tls),
                    policy.key.str(), "port " + std::to_string(number(target.target_port))});
}

void add_defaults(const MeshConfig& config, Edges& edges) {
  if (config.proxy.permissive)
    edges.insert({kAnyAccount, "any service of the mesh", kMutualTls, "", "permissive mode"});
  if (config.proxy.egress)
    edges.insert({kAnyAccount, kAnyHost, "the application's choice", "", "egress is enabled"});
}

}  // namespace

Result<net::Response> graph(const net::AdminApiOptions& options, const net::Request&) {
  const MeshConfig config = options.spec.get_mesh_config();
  Edges edges;
  add_defaults(config, edges);
  const MeshCataloger& catalog = options.control_plane.catalog();
  if (!config.proxy.permissive) {
    OSM_TRY(const auto targets, catalog.list_smi_policies());
    add_targets(targets, edges);
  }
  OSM_TRY(const auto policies, catalog.list_policies_in_force());
  for (const auto& policy : policies) {
    if (const auto* egress = policy->get<Egress>()) add_egress(*policy, *egress, edges);
    if (const auto* ingress = policy->get<IngressBackend>()) add_ingress(*policy, *ingress, edges);
  }
  json::array list;
  for (const Edge& edge : edges)
    list.push_back(json::object{{"source", edge.source},
                                {"destination", edge.destination},
                                {"encryption", edge.encryption},
                                {"object", edge.object},
                                {"detail", edge.detail}});
  return answer(json::object{{"mode", config.proxy.permissive ? "permissive" : "SMI"},
                             {"edges", std::move(list)}});
}

}  // namespace osm::inline v1::admin
