#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "model/own_ports.hpp"
#include "translate/class_view.hpp"
#include "translate/grpc.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::translate {
namespace {

bool before(const InputPtr& a, const InputPtr& b) { return a->name() < b->name(); }
bool same_name(const InputPtr& a, const InputPtr& b) { return a->name() == b->name(); }

std::vector<InputPtr> ordered_and_unique(std::vector<InputPtr> inputs) {
  std::stable_sort(inputs.begin(), inputs.end(), before);
  inputs.erase(std::unique(inputs.begin(), inputs.end(), same_name), inputs.end());
  return inputs;
}

// Adds ports and apexes that are leaving. If an own port has the target port with another protocol,
// that one counts.
void add_leaving(std::vector<ServedPort>& served, const std::vector<ServedPort>& leaving) {
  const std::vector<ServedPort> own = served;
  for (const ServedPort& one : leaving) {
    const auto same = std::find_if(served.begin(), served.end(), [&](const ServedPort& candidate) {
      return candidate.port == one.port;
    });
    if (same != served.end()) {
      std::vector<ServiceName> apexes;
      std::set_union(same->apexes.begin(), same->apexes.end(), one.apexes.begin(), one.apexes.end(),
                     std::back_inserter(apexes));
      same->apexes = std::move(apexes);
    } else if (std::none_of(own.begin(), own.end(), [&](const ServedPort& candidate) {
                 return candidate.port.target_port == one.port.target_port &&
                        candidate.port.protocol != one.port.protocol;
               })) {
      served.push_back(one);
    }
  }
  std::sort(served.begin(), served.end());
}

}  // namespace

ClassView::ClassView(const model::MeshSnapshot& mesh, const ProxyClass& seen_by)
    : snapshot(mesh),
      proxy_class(seen_by),
      client(mesh.clients.find(seen_by.identity)),
      telemetry(seen_by.telemetry ? mesh.telemetries.find(*seen_by.telemetry) : nullptr),
      upstream_list(mesh.upstreams_of(seen_by.identity)),
      served(served_ports(mesh, seen_by.own_ports)) {
  if (!seen_by.leaving.empty()) add_leaving(served, seen_by.leaving);
  upstreams.reserve(upstream_list->size());
  for (const model::Upstream& upstream : *upstream_list)
    if (auto entry = snapshot.services.find(upstream.service))
      upstreams.push_back({&upstream, std::move(entry)});
}

const ClassView::UpstreamService* ClassView::find(const ServiceName& service) const {
  const auto at = std::lower_bound(
      upstreams.begin(), upstreams.end(), service,
      [](const UpstreamService& a, const ServiceName& name) { return a.entry->name < name; });
  return at != upstreams.end() && at->entry->name == service ? &*at : nullptr;
}

const RetryPolicy* ClassView::retry_of(const ServiceName& service) const {
  if (!client) return nullptr;
  const auto at = client->retries.find(service);
  return at == client->retries.end() ? nullptr : &at->second.policy;
}

const UpstreamLimits* ClassView::limits_of(const ServiceName& service) const {
  const auto entry = snapshot.services.find(service);  // owned by the snapshot
  return entry && entry->limits ? &*entry->limits : nullptr;
}

bool ClassView::sends_http() const {
  const auto speaks_http = [](const MeshService& port) { return is_http(port.protocol); };
  return std::any_of(upstreams.begin(), upstreams.end(), [&](const UpstreamService& seen) {
    const auto& ports = seen.entry->ports;
    return seen.upstream->dialled && std::any_of(ports.begin(), ports.end(), speaks_http);
  });
}

const model::IngressPort* ClassView::ingress_of(const ServedPort& served_port) const {
  const auto entry = snapshot.services.find(served_port.port.name);
  if (!entry || served_port.port.target_port == Port{0}) return nullptr;
  const auto at = entry->ingress.find(served_port.port.target_port);
  return at == entry->ingress.end() ? nullptr : &at->second;  // the snapshot owns the entry
}

bool ClassView::receives_http() const {
  return std::any_of(served.begin(), served.end(), [&](const ServedPort& one) {
    return one.port.target_port != Port{0} &&
           (is_http(one.port.protocol) || ingress_of(one) != nullptr);
  });
}

bool is_for_grpc_libraries(const MeshService& port) {
  return port.protocol == Protocol::kGrpc &&
         (port.port_name == "grpc-xds" || port.port_name.starts_with("grpc-xds-"));
}

std::string outbound_route_name(Port service_port) {
  return "rds-outbound." + std::to_string(number(service_port));
}

std::string inbound_route_name(Port target_port) {
  return "rds-inbound." + std::to_string(number(target_port));
}

std::string outbound_route_name(const model::ServiceEntry& service, const MeshService& port) {
  return outbound_route_name(port.port) + '.' + service_fqdn(service.name);
}

std::string inbound_route_name(const ServedPort& served) {
  const std::string shared = inbound_route_name(served.port.target_port);
  return served.headless ? shared + '.' + served.port.fqdn() : shared;
}

bool dials_one_pod(const model::ServiceEntry& service, const MeshService& port) {
  return service.headless && port.target_port != Port{0};
}

std::vector<Destination> destinations_of(const ClassView& view, const model::ServiceEntry& entry,
                                         const MeshService& dialled) {
  if (!entry.split) return {{dialled.cluster_name().str(), 0}};
  std::map<std::string, std::uint32_t> weights;
  for (const WeightedCluster& backend : *entry.split) {
    const auto* upstream = view.find(backend.service);
    if (!upstream || backend.weight <= 0) continue;
    const auto& ports = upstream->entry->ports;
    const auto port = std::find_if(ports.begin(), ports.end(), [&](const MeshService& candidate) {
      return candidate.port == dialled.port &&
             is_http(candidate.protocol) == is_http(dialled.protocol);
    });
    if (port != ports.end())
      weights[port->cluster_name().str()] += static_cast<std::uint32_t>(backend.weight);
  }
  std::vector<Destination> destinations;
  for (const auto& [cluster, weight] : weights) destinations.push_back({cluster, weight});
  // A single destination gets everything, whatever its weight.
  if (destinations.size() == 1) destinations.front().weight = 0;
  return destinations;
}

std::string dialled_cluster_name(const model::ServiceEntry& service, const MeshService& port) {
  const std::string cluster = port.cluster_name().str();
  return dials_one_pod(service, port) ? cluster + "|original-dst" : cluster;
}

std::vector<DialledPods> dialled_pods(const model::ServiceEntry& service, const MeshService& port) {
  std::vector<DialledPods> out{{port, true, {}}};
  if (!service.other_targets.contains(port.port_name)) {
    out.front().addresses = service.addresses;
    return out;
  }
  std::map<Port, std::vector<std::string>> elsewhere;
  for (const std::string& address : service.addresses) {
    const Port there = model::number_at(service, port, address);
    (there == port.target_port ? out.front().addresses : elsewhere[there]).push_back(address);
  }
  for (auto& [number, addresses] : elsewhere) {
    MeshService there = port;
    there.target_port = number;
    out.push_back({std::move(there), false, std::move(addresses)});
  }
  return out;
}

std::string outbound_route_name(const model::ServiceEntry& service, const DialledPods& pods) {
  const std::string name = outbound_route_name(service, pods.port);
  return pods.usual ? name : name + '.' + std::to_string(number(pods.port.target_port));
}

std::vector<std::string> domains_of(const std::vector<std::string>& host_names,
                                    const std::vector<Port>& ports) {
  std::vector<std::string> domains;
  for (const std::string& host : host_names) {
    domains.push_back(host);
    for (const Port port : ports) domains.push_back(host + ':' + std::to_string(number(port)));
  }
  return domains;
}

ProxyClass class_of(const model::MeshSnapshot& snapshot, const Workload& workload) {
  const auto entry = snapshot.workloads.find({workload.name.ns, workload.proxy_id, workload.kind});
  return {.identity = identity_of(workload.account),
          .own_ports = model::own_ports_of(snapshot.services, workload).ports,
          .telemetry = entry ? entry->telemetry : std::nullopt,
          .dns = entry && entry->dns};
}

std::vector<ServedPort> served_ports(const model::MeshSnapshot& snapshot,
                                     const std::vector<MeshService>& ports) {
  std::vector<ServedPort> served;
  served.reserve(ports.size());
  for (const MeshService& port : ports) {
    const auto entry = snapshot.services.find(port.name);
    served.push_back({port, entry && entry->headless,
                      entry ? entry->apexes : std::vector<ServiceName>(),
                      entry ? entry->http_paths : HttpPaths::kStrict,
                      entry ? entry->header_names : HeaderNames::kStrict});
  }
  return served;
}

std::vector<InputPtr> inputs_for(const model::MeshSnapshot& snapshot, const ProxyClass& proxy_class,
                                 XdsType type) {
  const ClassView view(snapshot, proxy_class);
  const bool grpc = proxy_class.grpc;
  switch (type) {
    case XdsType::kCluster:
      return ordered_and_unique(grpc ? grpc_cluster_inputs(view) : cluster_inputs(view));
    case XdsType::kEndpoint:
      return ordered_and_unique(endpoint_inputs(view));
    case XdsType::kListener:
      return ordered_and_unique(grpc ? grpc_listener_inputs(view) : listener_inputs(view));
    case XdsType::kRoute:
      return ordered_and_unique(grpc ? grpc_route_inputs(view) : route_inputs(view));
    case XdsType::kSecret:
      break;  // see encode_service_cert() and encode_root_cert()
  }
  return {};
}

std::vector<InputPtr> endpoint_inputs_for(const model::MeshSnapshot& snapshot,
                                          const ProxyClass& proxy_class,
                                          const ServiceName& service) {
  const auto list = snapshot.upstreams_of(proxy_class.identity);
  const model::Upstream* upstream = model::find_upstream(*list, service);
  if (upstream == nullptr) return {};
  auto entry = snapshot.services.find(service);
  if (!entry) return {};
  return ordered_and_unique(
      endpoint_inputs(snapshot, {upstream, std::move(entry)},
                      proxy_class.grpc ? LocalityWeights::kHosts : LocalityWeights::kNone));
}

std::vector<ServiceName> services_read_by(const model::MeshSnapshot& snapshot,
                                          const ProxyClass& proxy_class) {
  std::set<ServiceName> services;
  const auto upstreams = snapshot.upstreams_of(proxy_class.identity);
  for (const model::Upstream& upstream : *upstreams) services.insert(upstream.service);
  const auto add_served = [&](const std::vector<ServedPort>& ports) {
    for (const ServedPort& served : ports) {
      services.insert(served.port.name);
      services.insert(served.apexes.begin(), served.apexes.end());  // their limits
    }
  };
  add_served(served_ports(snapshot, proxy_class.own_ports));
  add_served(proxy_class.leaving);
  if (proxy_class.dns)
    for (const auto& service : snapshot.services) services.insert(service->name);
  return {services.begin(), services.end()};
}

}  // namespace osm::inline v1::translate
