#include "catalog/mesh_builder.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "catalog/resolve_workloads.hpp"

namespace osm::catalog {
namespace {

using model::ServiceEntry;

// Whether upstream lists that see the service could differ.
bool matters_to_policy(const std::shared_ptr<const ServiceEntry>& before,
                       const std::shared_ptr<const ServiceEntry>& after) {
  if (!before || !after) return true;
  return before->identities != after->identities || before->split != after->split;
}

// The clients of every account behind `service`, and behind the apexes that split to it.
void add_clients(const ServiceName& name, const model::Table<ServiceEntry>& services,
                 const PolicyIndex& index, std::set<ServiceIdentity>& out) {
  const auto service = services.find(name);
  if (!service) return;
  const auto add_clients_of = [&](const ServiceEntry& entry) {
    for (const ServiceIdentity& identity : entry.identities)
      for (const auto& target : index.with_destination(identity))
        out.insert(target->policy.sources.begin(), target->policy.sources.end());
  };
  add_clients_of(*service);
  for (const ServiceName& apex : service->apexes)
    if (const auto entry = services.find(apex)) add_clients_of(*entry);
}

bool has_synced(const WorkloadProvider& provider) {
  try {
    return provider.workloads_synced();
  } catch (...) {  // other people's code
    return false;
  }
}

void add_parties(const model::TargetEntry& target, std::set<ServiceIdentity>& out) {
  out.insert(target.destination);
  out.insert(target.policy.sources.begin(), target.policy.sources.end());
}

}  // namespace

MeshBuilder::MeshBuilder(const MeshSpec& spec, std::vector<endpoint::ProviderEntry> providers,
                         std::vector<WorkloadProvider*> workload_providers,
                         TrustDomain trust_domain)
    : spec_(spec),
      endpoints_(std::move(providers)),
      workload_providers_(std::move(workload_providers)),
      listed_workloads_(workload_providers_.size()) {
  next_.trust_domain = std::move(trust_domain);
  next_.permissive_upstreams = std::make_shared<const std::vector<model::Upstream>>();
  next_.problems = std::make_shared<const std::vector<Problem>>();
}

std::vector<std::string> MeshBuilder::waiting_for() const {
  std::vector<std::string> out;
  if (!spec_.spec().has_synced()) out.push_back("mesh specification");
  for (std::string& provider : endpoints_.waiting_for()) out.push_back(std::move(provider));
  for (const WorkloadProvider* provider : workload_providers_)
    if (!has_synced(*provider)) out.push_back("workload provider");
  return out;
}

std::shared_ptr<const model::MeshSnapshot> MeshBuilder::build() {
  resync_endpoints_ |= endpoints_.refresh_status();
  if (!published_ && !waiting_for().empty()) return nullptr;

  next_.changes = {};
  const SpecChanges spec = spec_.refresh();
  const MeshConfig config = std::exchange(next_.config, spec_.config());
  const bool mode_changed = config.permissive != next_.config.permissive;
  next_.changes.everything = !published_ || mode_changed || config.egress != next_.config.egress;
  reports_changed_ = !(config == next_.config);

  const ServiceTable services_before = next_.services;
  refresh_services(spec, refresh_endpoints(spec));
  refresh_policies(refresh_targets(spec), services_before, mode_changed);
  refresh_permissive();
  refresh_workloads(spec);
  refresh_port_conflicts();
  refresh_problems();
  if (next_.changes.empty() && !reports_changed_) return nullptr;
  published_ = true;
  ++next_.generation;
  return std::make_shared<const model::MeshSnapshot>(next_);
}

std::set<ServiceName> MeshBuilder::refresh_endpoints(const SpecChanges& spec) {
  std::set<ServiceName> known;
  for (const auto& service : spec_.services()) known.insert(service->name);

  std::set<ServiceName> gone;
  std::set<ServiceName> asked;
  for (const ServiceName& name : spec.services) (known.contains(name) ? asked : gone).insert(name);
  for (const ServiceName& name : std::exchange(stale_endpoints_, {}))
    if (known.contains(name)) asked.insert(name);
  if (spec.namespaces) endpoints_.set_monitored_namespaces(spec_.namespaces());
  if (std::exchange(resync_endpoints_, false) || spec.namespaces) asked = known;

  std::set<ServiceName> changed = endpoints_.read(asked);
  changed.merge(endpoints_.forget(gone));
  TableEdit edit(next_.endpoints);
  for (const ServiceName& name : changed) {
    if (const auto merged = endpoints_.find(name)) {
      edit.put(resolve_endpoints(*merged));
    } else {
      edit.remove(name);
    }
  }
  next_.changes.endpoints = edit.finish();
  return changed;
}

void MeshBuilder::refresh_services(const SpecChanges& spec,
                                   const std::set<ServiceName>& endpoints) {
  bool differ = spec.splits;
  std::set<ServiceName> present;
  for (const auto& service : spec_.services()) {
    present.insert(service->name);
    if (!spec.services.contains(service->name) && !endpoints.contains(service->name)) continue;
    ServiceEntry draft = resolve_service(*service, endpoints_.find(service->name).get());
    auto& held = drafts_[service->name];
    if (held && *held == draft) continue;
    held = std::make_shared<const ServiceEntry>(std::move(draft));
    differ = true;
  }
  const auto absent = [&](const auto& draft) { return !present.contains(draft.first); };
  differ |= std::erase_if(drafts_, absent) > 0;
  if (!differ) return;

  SettledServices settled = settle_services(drafts_, spec_.splits());
  service_problems_ = std::move(settled.problems);
  TableEdit edit(next_.services);
  edit.replace_all(std::move(settled.services));
  next_.changes.services = edit.finish();
}

RouteObjects MeshBuilder::route_objects() const {
  RouteObjects out;
  for (const auto& group : spec_.http_routes()) out.http.emplace(group->name, group);
  for (const auto& route : spec_.tcp_routes()) out.tcp.emplace(route->name, route);
  return out;
}

// Result: the identities that a changed target names or named.
std::set<ServiceIdentity> MeshBuilder::refresh_targets(const SpecChanges& spec) {
  std::set<ServiceIdentity> concerned;
  if (spec.targets.empty() && !spec.routes) return concerned;
  const RouteObjects routes = route_objects();
  TableEdit edit(next_.targets);
  for (const smi::ObjectName& name : spec.targets) edit.remove(name);  // unless it is still there:
  for (const auto& target : spec_.targets())
    if (spec.routes || spec.targets.contains(target->name))
      edit.put(resolve_target(*target, routes));
  for (const auto& [name, after] : edit.edits()) {
    if (const auto before = edit.before().find(name)) add_parties(*before, concerned);
    if (after) add_parties(*after, concerned);
  }
  reports_changed_ |= !edit.finish().empty();
  return concerned;
}

void MeshBuilder::refresh_policies(std::set<ServiceIdentity> concerned,
                                   const ServiceTable& services_before, bool mode_changed) {
  const bool outdated = !concerned.empty() || !next_.changes.services.empty();
  std::set<ServiceName> services;
  for (const ServiceName& name : next_.changes.services) {
    if (!matters_to_policy(services_before.find(name), next_.services.find(name))) continue;
    add_clients(name, services_before, index_, concerned);
    services.insert(name);
  }
  if (outdated) index_ = PolicyIndex(next_.targets, next_.services);
  for (const ServiceName& name : services) add_clients(name, next_.services, index_, concerned);

  TableEdit edit(next_.policies);
  if (next_.config.permissive) {
    edit.replace_all({});
  } else {
    if (mode_changed)
      for (const auto& target : next_.targets) add_parties(*target, concerned);
    for (const ServiceIdentity& identity : concerned) {
      if (!index_.names(identity)) {
        edit.remove(identity);
        continue;
      }
      model::IdentityPolicy policy = resolve_policy(identity, index_, next_.services);
      const auto held = next_.policies.find(identity);
      if (held && *held->upstreams == *policy.upstreams) policy.upstreams = held->upstreams;
      edit.put(std::move(policy));
    }
  }
  next_.changes.identities = edit.finish();
}

void MeshBuilder::refresh_permissive() {
  if (!next_.changes.everything && next_.changes.services.empty()) return;
  std::vector<model::Upstream> upstreams;
  if (next_.config.permissive) upstreams = resolve_permissive(next_.services);
  if (upstreams == *next_.permissive_upstreams) return;
  next_.permissive_upstreams =
      std::make_shared<const std::vector<model::Upstream>>(std::move(upstreams));
}

std::vector<Workload> MeshBuilder::list_workloads() {
  provider_problems_.clear();
  std::vector<Workload> out;
  for (std::size_t i = 0; i < workload_providers_.size(); ++i) {
    std::string failure;
    try {
      listed_workloads_[i] = workload_providers_[i]->list_workloads();
    } catch (const std::exception& error) {
      failure = error.what();
    } catch (...) {
      failure = "an exception that is no std::exception";
    }
    if (!failure.empty()) {
      stale_workloads_ = true;
      provider_problems_.push_back(
          {.code = ErrorCode::kInternal,
           .object = {},
           .path = "workload provider #" + std::to_string(i + 1),
           .field = {},
           .cause = "failed: " + failure + "; its last workloads are kept and it is asked again"});
    }
    out.insert(out.end(), listed_workloads_[i].begin(), listed_workloads_[i].end());
  }
  return out;
}

void MeshBuilder::refresh_workloads(const SpecChanges& spec) {
  if (!std::exchange(stale_workloads_, false) && !spec.namespaces) return;
  ResolvedWorkloads resolved = resolve_workloads(list_workloads(), spec_.namespaces());
  workload_problems_ = std::move(resolved.problems);
  TableEdit edit(next_.workloads);
  edit.replace_all(std::move(resolved.workloads));
  next_.changes.workloads = edit.finish();
}

void MeshBuilder::refresh_port_conflicts() {
  const model::Changes& changes = next_.changes;
  if (changes.services.empty() && changes.workloads.empty()) return;
  for (const model::ProxyKey& proxy : changes.workloads) port_conflicts_.erase(proxy);
  for (const auto& entry : next_.workloads) {
    const auto& services = entry->workload.services;
    const bool concerned = changes.workloads.contains(entry->proxy) ||
                           std::any_of(services.begin(), services.end(), [&](const auto& name) {
                             return changes.services.contains(name);
                           });
    if (!concerned) continue;
    auto conflicts = model::own_ports_of(next_.services, entry->workload).conflicts;
    if (conflicts.empty()) {
      port_conflicts_.erase(entry->proxy);
    } else {
      port_conflicts_[entry->proxy] = std::move(conflicts);
    }
  }
}

void MeshBuilder::refresh_problems() {
  std::vector<Problem> all = endpoints_.problems();
  const auto add = [&](const std::vector<Problem>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  add(service_problems_);
  add(workload_problems_);
  add(provider_problems_);
  std::map<model::PortConflict, WorkloadName> conflicts;  // with the first workload as the example
  for (const auto& [proxy, some] : port_conflicts_)
    for (const model::PortConflict& conflict : some)
      conflicts.try_emplace(conflict, next_.workloads.find(proxy)->workload.name);
  for (const auto& [conflict, example] : conflicts) all.push_back(port_problem(conflict, example));

  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all == *next_.problems) return;
  next_.problems = std::make_shared<const std::vector<Problem>>(std::move(all));
  reports_changed_ = true;
}

}  // namespace osm::catalog
