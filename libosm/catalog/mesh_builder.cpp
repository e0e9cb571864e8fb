#include "catalog/mesh_builder.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/guarded.hpp"
#include "base/maps.hpp"
#include "catalog/resolve_egress.hpp"
#include "catalog/resolve_ingress.hpp"
#include "catalog/resolve_limits.hpp"
#include "catalog/resolve_providers.hpp"
#include "endpoint/source_addresses.hpp"

namespace osm::inline v1::catalog {
namespace {

using model::ServiceEntry;

// True if upstream lists that contain the service could differ.
bool matters_to_policy(const std::shared_ptr<const ServiceEntry>& before,
                       const std::shared_ptr<const ServiceEntry>& after) {
  if (!before || !after) return true;
  return before->identities != after->identities || before->split != after->split ||
         before->idle != after->idle;
}

// The provider's id, if it also lists endpoints; else its place in the options: "#1".
std::string name_of(const WorkloadProvider& provider, std::size_t position) {
  const std::string id = guarded([&]() -> std::string {
                           const auto* named = dynamic_cast<const EndpointsProvider*>(&provider);
                           return named ? named->id() : "";
                         }).value_or("");
  return id.empty() ? '#' + std::to_string(position + 1) : id;
}

// True if an object of the kind changed.
bool changes(const SpecChanges& spec, const GroupKind& kind) {
  return std::any_of(spec.objects.begin(), spec.objects.end(),
                     [&](const auto& object) { return object.first.is(kind); });
}

std::set<std::string> monitored(const model::MeshSnapshot& mesh) {
  return {mesh.objects->namespaces.begin(), mesh.objects->namespaces.end()};
}

ObjectKey key_of(const Workload& workload) {
  return {model::kWorkloadKind, workload.name.ns, workload.name.name};
}

}  // namespace

MeshBuilder::MeshBuilder(SpecSource spec, std::vector<ProviderEntry> providers,
                         std::vector<WorkloadProvider*> workload_providers,
                         const TrustDomains& trust_domains)
    : spec_(std::move(spec)),
      source_addresses_(providers),
      endpoints_(std::move(providers)),
      workload_providers_(std::move(workload_providers)),
      claims_(workload_providers_.size(), addresses_) {
  trust_domains_changed(trust_domains);
  next_.objects = std::make_shared<const SpecSnapshot>();
  next_.permissive_upstreams = std::make_shared<const std::vector<model::Upstream>>();
  next_.problems = std::make_shared<const std::vector<Problem>>();
}

void MeshBuilder::trust_domains_changed(const TrustDomains& trust_domains) {
  other_domains_ |= next_.accepted_domains != trust_domains.accepted ||
                    next_.allowed_domains != trust_domains.allowed ||
                    next_.osm_v1_names != trust_domains.osm_v1_names;
  next_.accepted_domains = trust_domains.accepted;
  next_.allowed_domains = trust_domains.allowed;
  next_.osm_v1_names = trust_domains.osm_v1_names;
}

std::vector<std::string> MeshBuilder::waiting_for() const {
  std::vector<std::string> out;
  if (!spec_()->synced) out.push_back("mesh specification");
  for (std::string& provider : endpoints_.waiting_for()) out.push_back(std::move(provider));
  for (std::size_t i = 0; i < workload_providers_.size(); ++i)
    if (!guarded([&] { return workload_providers_[i]->workloads_synced(); }).value_or(false))
      out.push_back("workload provider " + name_of(*workload_providers_[i], i));
  return out;
}

std::shared_ptr<const model::MeshSnapshot> MeshBuilder::build() {
  object_changes_.clear();
  if (endpoints_.refresh_status()) resync_endpoints_ = resync_workloads_ = true;
  if (!published_ && !waiting_for().empty()) return nullptr;

  next_.changes = {};
  const model::MeshSnapshot before = next_;  // pointers to its tables
  const auto index_before = index_;
  const std::set<ServiceName> announced = stale_endpoints_;
  const bool resync = resync_endpoints_;
  std::set<ServiceName> endpoints = read_announced();
  next_.objects = spec_();
  const SpecChanges spec = changes_between(*before.objects, *next_.objects);
  const MeshConfig config = std::exchange(next_.config, *next_.objects->config);
  const bool mode_changed = config.proxy.permissive != next_.config.proxy.permissive;
  next_.changes.everything =
      std::exchange(other_domains_, false) || !published_ || config.proxy != next_.config.proxy;
  reports_changed_ = !(config == next_.config);

  const std::set<ServiceIdentity> turned = refresh_denials(spec);
  const ServiceTable services_before = next_.services;
  refresh_telemetry(spec);
  refresh_workloads(spec);
  const std::set<std::string> moved = refresh_addresses(spec);
  refresh_endpoints(spec, turned.empty() ? &moved : nullptr, endpoints);
  const bool ingress = refresh_sources(spec, announced, resync);
  refresh_services(spec, endpoints, ingress || config.proxy.ingress != next_.config.proxy.ingress);
  Announcements::Due due = filter_ ? filter_->begin(next_, !published_) : Announcements::Due();
  next_.changes.everything |=
      std::exchange(next_.smi_upstreams, due.smi_upstreams) != due.smi_upstreams;
  std::set<ServiceIdentity> concerned = refresh_targets(spec);
  for (const ServiceIdentity& source : turned)
    for (const auto& target : index_->with_source(source)) concerned.insert(target->destination);
  refresh_policies(std::move(concerned), std::move(due.clients), services_before, mode_changed);
  endpoints.merge(due.services);
  announce_endpoints(endpoints);
  refresh_permissive();
  refresh_clients(spec);
  port_conflicts_.update(next_.changes, before.workloads, next_.workloads, next_.services);
  refresh_problems(spec, before);
  note_objects(spec.objects, before, *index_before);
  if (next_.changes.empty() && !reports_changed_) return nullptr;
  published_ = true;
  ++next_.generation;
  next_.hash = hash_.update(next_);
  next_.digests = std::make_shared<const model::MeshDigests>(hash_.digests());
  return std::make_shared<const model::MeshSnapshot>(next_);
}

// Result: the accounts that a change denies, or no longer denies.
std::set<ServiceIdentity> MeshBuilder::refresh_denials(const SpecChanges& spec) {
  std::set<ServiceIdentity> turned;
  Denials fresh =
      changes(spec, kinds::kDenylist) ? denials_of(next_.objects->policies.list()) : *next_.denied;
  if (fresh == *next_.denied) return turned;
  for (const auto& [account, denial] : fresh.accounts)
    if (!next_.denied->accounts.contains(account)) turned.insert(account);
  for (const auto& [account, denial] : next_.denied->accounts)
    if (!fresh.accounts.contains(account)) turned.insert(account);
  next_.denied = std::make_shared<const Denials>(std::move(fresh));
  claims_.set_denials(next_.denied);
  next_.changes.everything |= next_.config.proxy.permissive && !turned.empty();
  reports_changed_ = true;
  return turned;
}

// Result: the namespaces that lost an address or got one back.
std::set<std::string> MeshBuilder::refresh_addresses(const SpecChanges& spec) {
  addresses_.set_allotments(next_.config.allotments);
  for (const ServiceName& name : spec.services)
    addresses_.set_service(name, next_.objects->services.find(name).get());
  return addresses_.settle();
}

// True for endpoints of denied accounts, and at addresses of other namespaces.
bool MeshBuilder::refuses(const Endpoint& endpoint) const {
  return next_.denied->accounts.contains(endpoint.identity) ||
         addresses_.is_lost(endpoint.address, endpoint.identity.ns);
}

// The merged endpoints without refused ones; null: no provider knows the service.
std::shared_ptr<const endpoint::MergedService> MeshBuilder::served(
    const ServiceName& service) const {
  auto merged = endpoints_.find(service);
  const auto refused = [&](const Endpoint& endpoint) { return refuses(endpoint); };
  if (!merged || std::none_of(merged->endpoints.begin(), merged->endpoints.end(), refused))
    return merged;
  return std::make_shared<const endpoint::MergedService>(merged->without(refused));
}

// Reads the announced endpoints, before the specification, so that it is never older than they are:
// providers read the specification themselves, and a Service without endpoints may be a deleted
// one. Result: the services whose endpoints changed.
std::set<ServiceName> MeshBuilder::read_announced() {
  std::set<ServiceName> held = std::exchange(stale_endpoints_, {});
  std::erase_if(held, [&](const ServiceName& name) { return !next_.objects->services.find(name); });
  return held.empty() ? std::set<ServiceName>() : endpoints_.read(held);
}

// Adds to `changed`. `others`: namespaces whose services are resolved again; null: all.
void MeshBuilder::refresh_endpoints(const SpecChanges& spec, const std::set<std::string>* others,
                                    std::set<ServiceName>& changed) {
  std::set<ServiceName> gone;
  std::set<ServiceName> asked;
  for (const ServiceName& name : spec.services)
    (next_.objects->services.find(name) ? asked : gone).insert(name);
  if (spec.namespaces) endpoints_.set_monitored_namespaces(monitored(next_));
  if (std::exchange(resync_endpoints_, false) || spec.namespaces)
    for (const auto& service : next_.objects->services) asked.insert(service->name);

  if (changes(spec, kinds::kServiceProvider))
    changed.merge(endpoints_.set_orders(provider_orders(next_.objects->policies)));
  changed.merge(endpoints_.read(asked));
  changed.merge(endpoints_.forget(gone));
  if (!others || !others->empty())
    for (const auto& service : next_.objects->services)
      if (!others || others->contains(service->name.ns)) changed.insert(service->name);
}

// Settles the endpoints that clients know. `changed`: the Services whose endpoints changed. After
// the Services, workloads and policies, which the filter asks for.
void MeshBuilder::announce_endpoints(const std::set<ServiceName>& changed) {
  TableEdit edit(next_.endpoints);
  for (const ServiceName& name : changed) {
    step_();
    const auto merged = served(name);
    model::ServiceEndpoints endpoints{name, {}};
    if (merged) endpoints = resolve_endpoints(*merged);
    if (filter_) {
      filter_->filter(endpoints, edit.before().find(name).get());
      // Endpoints that clients knew may be refused by now.
      std::erase_if(endpoints.endpoints, [&](const Endpoint& one) { return refuses(one); });
    }
    if (merged) {
      name_providers(endpoints, *merged, edit.before().find(name).get());
      edit.put(std::move(endpoints));
    } else {
      edit.remove(name);
    }
  }
  next_.changes.endpoints = edit.finish();
}

// Result: an IngressBackend changed, or the callers that one admits.
bool MeshBuilder::refresh_sources(const SpecChanges& spec, const std::set<ServiceName>& announced,
                                  bool all) {
  const bool policies = changes(spec, kinds::kIngressBackend);
  if (policies) source_services_ = endpoint::source_services(next_.objects->policies.list());
  const bool moved = source_addresses_.read(source_services_, announced, all);
  if (!moved && (source_services_.empty() || next_.changes.workloads.empty())) return policies;
  Sources sources = resolve_sources(source_addresses_.addresses(), next_.workloads);
  return std::exchange(sources_, sources) != sources || policies;
}

// `ingress`: callers from outside of the mesh may have changed.
void MeshBuilder::refresh_services(const SpecChanges& spec, const std::set<ServiceName>& endpoints,
                                   bool ingress) {
  bool differ = ingress || spec.splits || changes(spec, kinds::kUpstreamTrafficSetting) ||
                changes(spec, kinds::kEgress) || changes(spec, kinds::kServiceProvider);
  std::set<ServiceName> concerned = spec.services;
  concerned.insert(endpoints.begin(), endpoints.end());
  for (const ServiceName& name : concerned) {
    step_();
    const auto service = next_.objects->services.find(name);
    if (!service) {
      differ |= drafts_.erase(name) > 0;
      ages_.erase(name);
      continue;
    }
    ServiceEntry draft = resolve_service(*service, served(name).get());
    if (addresses_.is_lost(draft.cluster_ip, name.ns)) draft.cluster_ip.clear();
    differ |= put_or_erase(ages_, name, std::optional(service->created));
    auto& held = drafts_[name];
    if (held && *held == draft) continue;
    held = std::make_shared<const ServiceEntry>(std::move(draft));
    differ = true;
  }
  if (!differ) return;

  SettledServices settled = settle_services(drafts_, next_.objects->splits, ages_);
  service_problems_ = std::move(settled.problems);
  limit_problems_ = resolve_limits(next_.objects->policies, settled.services);
  ingress_problems_ = resolve_ingress(next_.objects->policies, sources_, next_.config.proxy.ingress,
                                      settled.services);
  set_order_origins(next_.objects->policies, settled.services);
  TableEdit edit(next_.services);
  edit.replace_all(std::move(settled.services));
  next_.changes.services = edit.finish();
}

RouteObjects MeshBuilder::route_objects() const {
  RouteObjects out;
  for (const auto& group : next_.objects->http_routes) out.http.emplace(group->name, group);
  for (const auto& route : next_.objects->tcp_routes) out.tcp.emplace(route->name, route);
  return out;
}

// Result: the identities that a changed target names, or named before.
std::set<ServiceIdentity> MeshBuilder::refresh_targets(const SpecChanges& spec) {
  std::set<ServiceIdentity> concerned;
  if (spec.targets.empty() && !spec.routes) return concerned;
  const RouteObjects routes = route_objects();
  TableEdit edit(next_.targets);
  for (const smi::ObjectName& name : spec.targets) edit.remove(name);  // unless it is still there:
  for (const auto& target : next_.objects->targets)
    if (spec.routes || spec.targets.contains(target->name)) {
      step_();
      edit.put(resolve_target(*target, routes));
    }
  for (const auto& [name, after] : edit.edits()) {
    if (const auto before = edit.before().find(name)) add_parties(*before, concerned);
    if (after) add_parties(*after, concerned);
  }
  reports_changed_ |= !edit.finish().empty();
  return concerned;
}

// `concerned`: identities that changed targets name. `due`: identities whose upstreams are filtered
// again.
void MeshBuilder::refresh_policies(std::set<ServiceIdentity> concerned,
                                   std::set<ServiceIdentity> due,
                                   const ServiceTable& services_before, bool mode_changed) {
  const bool outdated = !concerned.empty() || !next_.changes.services.empty();
  std::vector<ServiceName> services;
  for (const ServiceName& name : next_.changes.services)
    if (matters_to_policy(services_before.find(name), next_.services.find(name)))
      services.push_back(name);
  add_clients(services, services_before, *index_, concerned);
  if (outdated) index_ = std::make_shared<const PolicyIndex>(next_.targets, next_.services);
  add_clients(services, next_.services, *index_, concerned);
  concerned.merge(due);

  TableEdit edit(next_.policies);
  std::vector<model::IdentityPolicy> policies;
  if (next_.config.proxy.permissive && !next_.smi_upstreams) {
    edit.replace_all({});
  } else {
    if (mode_changed)
      for (const auto& target : next_.targets) add_parties(*target, concerned);
    for (const ServiceIdentity& identity : concerned) {
      step_();
      if (index_->names(identity)) {
        policies.push_back(resolve_policy(identity, *index_, next_.services, *next_.denied));
      } else {
        edit.remove(identity);
      }
    }
  }
  if (filter_) filter_->filter(policies);
  for (model::IdentityPolicy& policy : policies) {
    const auto held = next_.policies.find(policy.identity);
    if (held && *held->upstreams == *policy.upstreams) policy.upstreams = held->upstreams;
    edit.put(std::move(policy));
  }
  next_.changes.identities = edit.finish();
}

void MeshBuilder::refresh_permissive() {
  if (!next_.changes.everything && next_.changes.services.empty()) return;
  std::vector<model::Upstream> upstreams;
  if (next_.config.proxy.permissive && !next_.smi_upstreams)
    upstreams = resolve_permissive(next_.services, next_.config.proxy.egress);
  if (upstreams == *next_.permissive_upstreams) return;
  next_.permissive_upstreams =
      std::make_shared<const std::vector<model::Upstream>>(std::move(upstreams));
}

void MeshBuilder::refresh_clients(const SpecChanges& spec) {
  const bool named = changes(spec, kinds::kRetry) || changes(spec, kinds::kEgress) ||
                     changes(spec, kinds::kHttpRouteGroup) ||
                     changes(spec, kinds::kUpstreamTrafficSetting);
  if (!named && !next_.changes.everything && next_.changes.services.empty()) return;
  ResolvedClients resolved =
      resolve_clients(next_.objects->policies, next_.services, next_.config.proxy.retries);
  client_problems_ = std::move(resolved.problems);
  for (Problem& problem : resolve_egress(*next_.objects, next_.services, resolved.clients))
    client_problems_.push_back(std::move(problem));
  TableEdit edit(next_.clients);
  edit.replace_all(std::move(resolved.clients));
  next_.changes.identities.merge(edit.finish());
}

void MeshBuilder::refresh_telemetry(const SpecChanges& spec) {
  if (!spec.namespaces && !changes(spec, kinds::kTelemetry) &&
      !changes(spec, kinds::kExtensionService))
    return;
  ResolvedTelemetry resolved = resolve_telemetry(*next_.objects);
  claims_.set_telemetry(std::move(resolved.selectors));
  telemetry_problems_ = std::move(resolved.problems);
  TableEdit edit(next_.telemetries);
  edit.replace_all(std::move(resolved.entries));
  next_.changes.telemetries = edit.finish();
}

// Reads the provider's workloads: all of them if `all`, else those in `names`.
void MeshBuilder::read_workloads(std::size_t provider, bool all,
                                 const std::set<WorkloadName>& names) {
  const WorkloadProvider& asked = *workload_providers_[provider];
  const auto read = guarded([&]() -> Status {
    if (all) {
      step_();
      claims_.replace(provider, asked.list_workloads());
      return {};
    }
    for (const WorkloadName& name : names) {
      step_();
      claims_.set(provider, name, asked.find_workload(name));
    }
    return {};
  });
  if (read.ok()) return;
  resync_workloads_ = true;
  provider_problems_.push_back({.code = ErrorCode::kInternal,
                                .object = {},
                                .path = "workload provider " + name_of(asked, provider),
                                .field = {},
                                .cause = "failed: " + read.error().message +
                                         "; its last workloads are kept and it is asked again"});
}

void MeshBuilder::refresh_workloads(const SpecChanges& spec) {
  const bool all = std::exchange(resync_workloads_, false);
  const auto names = std::exchange(stale_workloads_, {});
  if (all) provider_problems_.clear();
  if (all || !names.empty())
    for (std::size_t i = 0; i < workload_providers_.size(); ++i) read_workloads(i, all, names);
  if (spec.namespaces) claims_.set_monitored_namespaces(monitored(next_));
  TableEdit edit(next_.workloads);
  claims_.settle(edit);
  next_.changes.workloads = edit.finish();
}

std::vector<Problem> MeshBuilder::source_problems() const {
  std::vector<Problem> out;
  const std::vector<std::string> failures = source_addresses_.failures();
  const std::vector<ProviderStatus> providers = endpoints_.providers();
  for (std::size_t i = 0; i < failures.size(); ++i)
    if (!failures[i].empty())
      out.push_back({.code = ErrorCode::kInternal,
                     .object = {},
                     .path = "endpoints provider " + providers[i].id,
                     .field = {},
                     .cause = "failed to list addresses of an IngressBackend's source: " +
                              failures[i] + "; its last ones are kept and it is asked again"});
  return out;
}

void MeshBuilder::refresh_problems(const SpecChanges& spec, const model::MeshSnapshot& before) {
  // Settings of the mode and of egress change everything.
  if (spec.splits || next_.changes.everything || !next_.changes.services.empty()) {
    entry_problems_ = check_outside(next_.services, next_.config.proxy.egress);
    for (Problem& problem :
         check_apexes(next_.services, next_.objects->splits, next_.config.proxy.permissive))
      entry_problems_.push_back(std::move(problem));
  }
  unknown_sources_.update(spec, before, next_, *index_);
  if (spec.splits || spec.routes || !spec.targets.empty() || next_.changes.everything ||
      !next_.changes.services.empty()) {
    reference_problems_ = check_header_names(*next_.objects, *index_);
    if (!next_.config.proxy.permissive)
      for (Problem& problem : check_backends(next_.services, next_.objects->splits, *index_))
        reference_problems_.push_back(std::move(problem));
  }
  if (!published_ || changes(spec, kinds::kServiceProvider) || !spec.services.empty())
    order_problems_ = check_provider_orders(*next_.objects, endpoints_.providers());
  std::vector<Problem> all = endpoints_.problems();
  const auto add = [&](const std::vector<Problem>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  add(service_problems_);
  add(limit_problems_);
  add(order_problems_);
  add(ingress_problems_);
  add(entry_problems_);
  add(reference_problems_);
  add(client_problems_);
  add(telemetry_problems_);
  add(provider_problems_);
  add(source_problems());
  claims_.add_problems(all);
  unknown_sources_.add_problems(all);
  addresses_.add_problems(all);
  port_conflicts_.add_problems(next_.workloads, all);

  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all == *next_.problems) return;
  next_.problems = std::make_shared<const std::vector<Problem>>(std::move(all));
  reports_changed_ = true;
}

// Records changed objects for questions about their status.
void MeshBuilder::note_objects(const std::map<ObjectKey, bool>& changed,
                               const model::MeshSnapshot& before, const PolicyIndex& index_before) {
  ReaderEntries readers;
  for (const auto& [key, present] : changed) {
    step_();
    object_changes_[key] = {.present = present,
                            .before = scope_of(key, before, index_before, readers)};
  }
  for (const model::ProxyKey& proxy : next_.changes.workloads) {
    const auto old = before.workloads.find(proxy);
    if (!old) continue;
    ObjectChange& change = object_changes_[key_of(old->workload)];
    change.present = false;  // unless one of its name is still there:
    change.before.merge(scope_of(old->workload, before, index_before));
  }
  for (const model::ProxyKey& proxy : next_.changes.workloads)
    if (const auto now = next_.workloads.find(proxy))
      object_changes_[key_of(now->workload)].present = true;
  for (const auto& [key, change] : object_changes_) next_.changes.objects.insert(key);
}

}  // namespace osm::inline v1::catalog
