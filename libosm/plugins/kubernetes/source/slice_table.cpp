#include "kubernetes/source/slice_table.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/json.hpp"
#include "base/maps.hpp"
#include "model/ip_address.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kServiceNameLabel = "kubernetes.io/service-name";

void read_target(const json::value& endpoint, const std::string& ns, ListedEndpoint& out) {
  const json::object& target = map_at(endpoint, "targetRef");
  if (text_at(target, "kind") != "Pod") return;
  const std::string target_ns = text_at(target, "namespace");
  if (!target_ns.empty() && target_ns != ns) return;
  out.pod = text_at(target, "name");
  out.pod_uid = text_at(target, "uid");
}

std::vector<ListedPort> ports_of(const json::value& map) {
  std::vector<ListedPort> ports;
  for (const json::value& entry : list_at(map, "ports"))
    if (const auto port = port_at(entry, "port"); port && is_tcp(entry))
      ports.push_back({text_at(entry, "name"), *port});
  return ports;
}

std::vector<ListedEndpoint> endpoints_of(const json::value& root, const std::string& ns) {
  std::vector<ListedEndpoint> endpoints;
  for (const json::value& entry : list_at(root, "endpoints")) {
    const json::array& addresses = list_at(entry, "addresses");
    // The API defines only the first address.
    const auto* address = addresses.empty() ? nullptr : addresses.front().if_string();
    if (address == nullptr) continue;
    ListedEndpoint& out = endpoints.emplace_back();
    out.address.assign(address->data(), address->size());
    const json::object& conditions = map_at(entry, "conditions");
    out.ready = bool_at(conditions, "ready").value_or(true);
    out.serving = bool_at(conditions, "serving").value_or(out.ready);
    out.terminating = bool_at(conditions, "terminating").value_or(false);
    if (std::string zone = text_at(entry, "zone"); !zone.empty()) out.zone = std::move(zone);
    read_target(entry, ns, out);
  }
  return endpoints;
}

// Collects endpoints that cannot be served: one problem per sort and Service, whatever their
// number.
struct LeftOut {
  std::set<std::string> without_sidecar;  // pods
  std::set<std::string> nameless;         // addresses of no pod, or of several accounts
  std::set<std::string> misplaced;        // pods that do not have the listed address
  std::set<std::string> ipv6;             // addresses of pods without another listed address
  std::set<std::string> names;            // names in FQDN slices
};

std::string count_of(const std::set<std::string>& things, const std::string& what) {
  return std::to_string(things.size()) + ' ' + what + (things.size() == 1 ? "" : "s") + " (" +
         *things.begin() + (things.size() == 1 ? ")" : ", ...)");
}

std::vector<Problem> problems_of(const ServiceName& service, const LeftOut& left_out) {
  std::vector<Problem> problems;
  const auto report = [&](const std::set<std::string>& things, ErrorCode code,
                          const std::string& what, const std::string& cause) {
    if (things.empty()) return;
    problems.push_back({code,
                        {kinds::kService, service.ns, service.name},
                        "",
                        0,
                        "",
                        count_of(things, what) + " behind it " + cause});
  };
  report(left_out.without_sidecar, ErrorCode::kDanglingReference, "pod",
         "without a sidecar: the mesh sends them nothing; create them anew with injection enabled, "
         "or take them out of the selector");
  report(left_out.nameless, ErrorCode::kDanglingReference, "address",
         "of nobody the mesh knows, so nobody can prove to be there: left out; only pods of this "
         "namespace that have a sidecar, and VirtualMachines that it selects, can serve it");
  report(left_out.misplaced, ErrorCode::kConflictingAddress, "pod",
         "listed at an address that it does not have: left out; correct or delete the "
         "EndpointSlice that says so");
  report(left_out.ipv6, ErrorCode::kUnusedField, "IPv6 address",
         "left out: the mesh carries IPv4 only yet; give the Service an IPv4 or dual-stack "
         "ipFamilyPolicy");
  report(left_out.names, ErrorCode::kUnusedField, "host name",
         "left out: the mesh sends to IP addresses only; list those in the EndpointSlice");
  return problems;
}

// Collects one Service's endpoints from its slices.
class Collector {
 public:
  Collector(const Service& service, const PodTable& pods) : service_(service), pods_(pods) {}

  void add(const EndpointSlice& slice) {
    for (const ListedEndpoint& listed : slice.endpoints) {
      const Pod* pod = pod_at(listed);
      if (pod == nullptr) continue;
      if (model::is_ipv6(listed.address)) {
        by_ipv6_.emplace(pod->name.name, listed.address);
        continue;
      }
      by_ipv4_.insert(pod->name.name);
      for (const ListedPort& port : slice.ports) add(listed, port, *pod);
    }
  }

  std::vector<Endpoint> endpoints() const {
    std::set<std::string> ports_with_ready;
    for (const auto& [place, found] : found_)
      if (found.ready) ports_with_ready.insert(found.endpoint.service_port);
    std::vector<Endpoint> out;
    for (const auto& [place, found] : found_) {
      out.push_back(found.endpoint);
      // Like kube-proxy: terminating endpoints are better than none.
      out.back().healthy = found.ready || (found.ends_serving &&
                                           !ports_with_ready.contains(found.endpoint.service_port));
    }
    return out;
  }

  std::vector<Problem> problems() const {
    LeftOut left_out = left_out_;
    for (const auto& [pod, address] : by_ipv6_)
      if (!by_ipv4_.contains(pod)) left_out.ipv6.insert(address);
    return problems_of(service_.name, left_out);
  }

  bool served_outside() const {
    return !left_out_.without_sidecar.empty() || !left_out_.nameless.empty() ||
           !left_out_.names.empty();
  }

  std::set<std::string> asked;  // names of pods, and addresses

 private:
  struct Found {
    Endpoint endpoint;
    bool ready = false;
    bool ends_serving = false;
  };

  // The pod at an endpoint; null: counted as left out.
  const Pod* pod_at(const ListedEndpoint& listed) {
    if (!model::is_ipv4(listed.address) && !model::is_ipv6(listed.address)) {
      left_out_.names.insert(listed.address);
      return nullptr;
    }
    return listed.pod.empty() ? pod_by_address(listed.address) : pod_by_name(listed);
  }

  const Pod* pod_by_name(const ListedEndpoint& listed) {
    asked.insert(listed.pod);
    const Pod* pod = pods_.find(listed.pod);
    // Another pod of that name, as in a StatefulSet: the listed one is gone, its slice will follow.
    if (pod != nullptr && !listed.pod_uid.empty() && listed.pod_uid != pod->uid) return nullptr;
    if (pod == nullptr) {
      if (listed.ready && !listed.terminating) left_out_.without_sidecar.insert(listed.pod);
      return nullptr;
    }
    const auto& has = pod->addresses;
    if (std::find(has.begin(), has.end(), listed.address) != has.end()) return pod;
    // The address of a pod without address is not known here yet.
    if (!has.empty()) left_out_.misplaced.insert(listed.pod);
    return nullptr;
  }

  const Pod* pod_by_address(const std::string& address) {
    asked.insert(address);
    const std::vector<const Pod*> pods = pods_.at(address);
    const bool one_account =
        !pods.empty() && std::all_of(pods.begin(), pods.end(), [&](const Pod* pod) {
          return pod->account == pods.front()->account;
        });
    if (one_account) return pods.front();
    left_out_.nameless.insert(address);
    return nullptr;
  }

  // The Service's port; null: the Service does not have it, or the mesh does not support it.
  const ServicePort* service_port(const std::string& name) const {
    for (const ServicePort& port : service_.ports)
      if (port.name == name || (name.empty() && service_.ports.size() == 1)) return &port;
    return nullptr;
  }

  void add(const ListedEndpoint& listed, const ListedPort& port, const Pod& pod) {
    const ServicePort* of = service_port(port.name);
    if (of == nullptr) return;
    // While slices are rearranged, an endpoint may be in two of them.
    Found& found = found_[{listed.address, port.port, of->name}];
    found.endpoint = {.address = listed.address,
                      .port = port.port,
                      .service_port = of->name,
                      .identity = identity_of(pod.account),
                      .zone = listed.zone ? listed.zone : found.endpoint.zone,
                      .weight = {}};
    found.ready = found.ready || listed.ready;
    found.ends_serving = found.ends_serving || (listed.serving && listed.terminating);
  }

  const Service& service_;
  const PodTable& pods_;
  std::map<std::tuple<std::string, Port, std::string>, Found> found_;
  std::set<std::string> by_ipv4_;               // pods
  std::map<std::string, std::string> by_ipv6_;  // pods, each with one of its addresses
  LeftOut left_out_;
};

}  // namespace

EndpointSlice decode_slice(const Object& object) {
  const json::value& root = *object.document;
  const auto service = object.labels.find(kServiceNameLabel);
  if (service == object.labels.end()) return {};
  return {service->second, ports_of(root), endpoints_of(root, object.key.ns)};
}

void SliceTable::set_service(const std::string& name, std::shared_ptr<const Service> service) {
  touched_.insert(name);
  put_or_erase(services_, name, service ? std::optional(std::move(service)) : std::nullopt);
}

void SliceTable::set_slice(const std::string& name, std::optional<EndpointSlice> slice) {
  if (slice && slice->service.empty()) slice.reset();
  const auto former = service_of_.find(name);
  if (former != service_of_.end()) {
    if (slice && slices_of_.at(former->second).at(name) == *slice) return;
    touched_.insert(former->second);
    remove_member(slices_of_, former->second, name);
    service_of_.erase(former);
  }
  if (!slice) return;
  touched_.insert(slice->service);
  service_of_[name] = slice->service;
  slices_of_[slice->service][name] = *std::move(slice);
}

endpoint::ServiceState SliceTable::compute(const Service& service, const PodTable& pods) {
  const auto* slices = find_in(slices_of_, service.name.name);
  if (!slices) return {};
  Collector collector(service, pods);
  for (const auto& [name, slice] : *slices) collector.add(slice);
  for (const std::string& asked : collector.asked) dependents_[asked].insert(service.name.name);
  dependencies_[service.name.name] = std::move(collector.asked);
  return {collector.endpoints(), collector.problems(), collector.served_outside()};
}

void SliceTable::forget_dependencies(const std::string& service) {
  const auto asked = dependencies_.extract(service);
  if (!asked) return;
  for (const std::string& key : asked.mapped()) remove_member(dependents_, key, service);
}

endpoint::TableChanges SliceTable::update(const PodTable& pods, const PodTable::Changes& changed) {
  endpoint::TableChanges changes;
  std::set<std::string> touched = std::exchange(touched_, {});
  for (const auto* keys : {&changed.pods, &changed.addresses})
    for (const std::string& key : *keys)
      if (const auto* services = find_in(dependents_, key))
        touched.insert(services->begin(), services->end());
  for (const std::string& name : touched) {
    forget_dependencies(name);
    const auto* service = find_in(services_, name);
    states_.set(name, service ? std::optional(compute(**service, pods)) : std::nullopt, changes);
  }
  return changes;
}

}  // namespace osm::inline v1::kubernetes
