#include "catalog/resolve_ingress.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "catalog/resolve_services.hpp"
#include "model/claims.hpp"
#include "osm/values/ingress_backend.hpp"

namespace osm::inline v1::catalog {
namespace {

std::string text_of(Port port) { return std::to_string(number(port)); }

std::string list_of(const std::set<Port>& ports) {
  std::string out;
  for (const Port port : ports) out += (out.empty() ? "" : ", ") + text_of(port);
  return out;
}

std::vector<std::string> in_order(std::set<std::string> texts) {
  return {texts.begin(), texts.end()};
}

// The numbers that workloads behind the Service listen on. Nullopt: a named port has no number yet.
std::optional<std::set<Port>> target_ports(const model::ServiceEntry& service) {
  std::set<Port> out;
  for (const MeshService& port : service.ports) {
    if (port.target_port == Port{}) return std::nullopt;
    out.insert(port.target_port);
  }
  for (const auto& [name, elsewhere] : service.other_targets)
    for (const auto& [address, ports] : elsewhere) out.insert(ports.begin(), ports.end());
  return out;
}

// Reason why no workload behind the Service admits anybody at the port; nullopt: it may.
std::optional<std::string> why_no_target(const model::ServiceEntry& service, Port wanted) {
  const auto targets = target_ports(service);
  if (!targets || targets->contains(wanted)) return std::nullopt;
  const auto dialled = std::find_if(service.ports.begin(), service.ports.end(),
                                    [&](const MeshService& port) { return port.port == wanted; });
  if (dialled != service.ports.end())
    return text_of(wanted) + " is a port of Service " + service.name.str() +
           ", and a backend is named by its target port: write " + text_of(dialled->target_port);
  return "Service " + service.name.str() + " has no target port " + text_of(wanted) +
         (targets->empty() ? "" : "; it has " + list_of(*targets));
}

// The workloads of the mesh that have one address.
struct WorkloadsAt {
  std::set<WorkloadName> pods;
  std::set<WorkloadName> machines;

  void add(const Workload& workload) {
    (workload.kind == WorkloadKind::kPod ? pods : machines).insert(workload.name);
  }
  // The workload to believe that it is an endpoint of the Service; nullopt: there is none.
  std::optional<WorkloadName> behind(const ServiceName& service) const {
    if (!pods.empty()) return *pods.begin();
    const auto own = machines.lower_bound({service.ns, ""});
    if (own == machines.end() || own->ns != service.ns) return std::nullopt;
    return *own;
  }
};

class IngressResolver {
 public:
  IngressResolver(const Sources& sources, std::vector<model::ServiceEntry>& services)
      : sources_(sources), services_(services) {}

  void add(const Policy& object, const IngressBackend& policy, bool obeyed) {
    object_ = &object.key;
    if (!obeyed) {
      report(ErrorCode::kUnusedField, "",
             "has no effect: MeshConfig's spec.featureFlags.enableIngressBackendPolicy is false");
      return;
    }
    const auto networks = networks_of(policy);
    const std::vector<model::Claim> claims = model::links_of(object).claims;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (!owners_.take(object.key, claims[i], problems_)) continue;
      const IngressTarget& target = policy.backends[i];
      model::IngressPort callers{{object.key, claims[i].field}, target.tls, networks, {}};
      if (callers.asks_for_certificate())
        callers.principals = in_order({policy.principals.begin(), policy.principals.end()});
      set(target, std::move(callers));
    }
  }

  std::vector<Problem> problems() && { return std::move(problems_); }

 private:
  void report(ErrorCode code, std::string field, std::string cause) {
    problems_.push_back({.code = code,
                         .object = *object_,
                         .path = {},
                         .field = std::move(field),
                         .cause = std::move(cause)});
  }

  // The addresses that the sources admit; nullopt: the sources do not limit them.
  std::optional<std::vector<std::string>> networks_of(const IngressBackend& policy) {
    if (!policy.limits_addresses) return std::nullopt;
    std::set<std::string> all(policy.networks.begin(), policy.networks.end());
    for (const IngressSourceService& source : policy.services) {
      const auto callers = sources_.find(source.service);
      const std::string field = "spec.sources[" + std::to_string(source.place) + ']';
      const std::string name = "Service " + source.service.str();
      if (callers != sources_.end())
        for (const std::string& address : callers->second.addresses) all.insert(address + "/32");
      if (callers != sources_.end() && !callers->second.meshed.empty()) {
        const auto& meshed = callers->second.meshed;
        report(ErrorCode::kUnusedField, field,
               "does not admit workload " + meshed.front().str() + " behind " + name +
                   (meshed.size() == 1 ? ""
                                       : " (and " + std::to_string(meshed.size() - 1) + " more)") +
                   ": it is in the mesh; allow its account in a TrafficTarget");
      } else if (callers == sources_.end() || callers->second.addresses.empty()) {
        report(ErrorCode::kDanglingReference, field,
               name + " is not there, or has no endpoint that is ready: it admits nobody");
      }
      if (callers != sources_.end()) report_claims(callers->second, field, name);
    }
    return in_order(std::move(all));
  }

  void report_claims(const SourceCallers& callers, const std::string& field,
                     const std::string& name) {
    if (callers.claimed.empty()) return;
    const auto& [address, machine] = *callers.claimed.begin();
    const std::size_t more = callers.claimed.size() - 1;
    // A notice: a namespace must not turn another one's objects into faulty ones.
    report(ErrorCode::kUnusedField, field,
           "admits " + address + " behind " + name + ", although workload " + machine.str() +
               " of the mesh names the same address" +
               (more == 0 ? "" : " (and " + std::to_string(more) + " more such addresses)") +
               ": a machine of another namespace takes no address out; correct the machine's");
  }

  void set(const IngressTarget& target, model::IngressPort callers) {
    const std::string& field = callers.origin.field;
    model::ServiceEntry* const at = find_service(services_, target.service);
    if (at == nullptr) {
      report(ErrorCode::kDanglingReference, field + ".name",
             "Service " + target.service.str() + " is not there, or is invalid and left out");
      return;
    }
    if (auto why = why_no_target(*at, target.target_port)) {
      report(ErrorCode::kDanglingReference, field + ".port.number", *std::move(why));
      return;
    }
    at->ingress.emplace(target.target_port, std::move(callers));
  }

  const Sources& sources_;
  std::vector<model::ServiceEntry>& services_;
  const ObjectKey* object_ = nullptr;  // the IngressBackend that is being added
  model::Owners owners_;
  std::vector<Problem> problems_;
};

}  // namespace

Sources resolve_sources(const endpoint::SourceTable::Addresses& addresses,
                        const Table<model::WorkloadEntry>& workloads) {
  Sources out;
  std::map<std::string, WorkloadsAt> found;
  for (const auto& [service, all] : addresses) {
    out[service];
    for (const std::string& address : all) found[address];
  }
  if (found.empty()) return out;
  for (const auto& entry : workloads)
    if (const auto at = found.find(entry->workload.address); at != found.end())
      at->second.add(entry->workload);
  for (const auto& [service, all] : addresses) {
    SourceCallers& callers = out[service];
    for (const std::string& address : all) {
      const WorkloadsAt& here = found.at(address);
      if (const auto workload = here.behind(service)) {
        callers.meshed.push_back(*workload);
        continue;
      }
      callers.addresses.push_back(address);
      if (!here.machines.empty()) callers.claimed.emplace(address, *here.machines.begin());
    }
    std::sort(callers.meshed.begin(), callers.meshed.end());
  }
  return out;
}

std::vector<Problem> resolve_ingress(const Table<Policy>& policies, const Sources& sources,
                                     bool obeyed, std::vector<model::ServiceEntry>& services) {
  IngressResolver resolver(sources, services);
  for (const auto& policy : policies)
    if (const auto* ingress = policy->get<IngressBackend>())
      resolver.add(*policy, *ingress, obeyed);
  return std::move(resolver).problems();
}

}  // namespace osm::inline v1::catalog
