#include "catalog/check_references.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/maps.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/retry.hpp"

namespace osm::inline v1::catalog {
namespace {

Problem dangling(ObjectKey object, std::string field, std::string cause) {
  return {.code = ErrorCode::kDanglingReference,
          .object = std::move(object),
          .path = {},
          .field = std::move(field),
          .cause = std::move(cause)};
}

ObjectKey target_key(const smi::ObjectName& target) {
  return {kinds::kTrafficTarget, target.ns, target.name};
}

// ---- backends

// The accounts that may call one of `accounts`; of an idle Service those that may call its
// namespace.
std::set<ServiceIdentity> clients_of(const model::ServiceEntry& service, const PolicyIndex& index) {
  std::set<std::string> idle_namespaces;
  if (service.idle) idle_namespaces.insert(service.name.ns);
  return index.clients_of({service.identities.begin(), service.identities.end()}, idle_namespaces);
}

bool share_one(const std::set<ServiceIdentity>& a, const std::set<ServiceIdentity>& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& one) { return b.contains(one); });
}

std::string names_of(const std::vector<ServiceIdentity>& accounts) {
  std::string out;
  for (const ServiceIdentity& account : accounts)
    out += (out.empty() ? "" : " or ") + account.str();
  return out;
}

// ---- header names

std::string underscored_header(const smi::HttpMatch& match) {
  for (const auto& [name, value] : match.headers)
    if (name.find('_') != std::string::npos) return name;
  return {};
}

bool uses(const smi::TrafficTarget& target, const smi::ObjectName& group,
          const std::string& match) {
  return target.name.ns == group.ns &&
         std::any_of(target.rules.begin(), target.rules.end(), [&](const auto& rule) {
           return rule.kind == smi::RouteKind::kHttpRouteGroup && rule.name == group.name &&
                  std::find(rule.matches.begin(), rule.matches.end(), match) != rule.matches.end();
         });
}

// A Service at which the match is refused; null: a Service takes such headers, or none is
// concerned.
const model::ServiceEntry* refusing(const SpecSnapshot& objects, const PolicyIndex& index,
                                    const smi::ObjectName& group, const std::string& match) {
  const model::ServiceEntry* example = nullptr;
  for (const auto& target : objects.targets) {
    if (!uses(*target, group, match)) continue;
    for (const auto& service : index.services_of(identity_of(target->destination))) {
      if (service->header_names == HeaderNames::kUnchecked) return nullptr;
      example = service.get();
    }
  }
  return example;
}

}  // namespace

void UnknownSources::hold(const ServiceIdentity& account, Accounts& turned) {
  if (++holders_[account] == 1) turned.insert(account);
}

void UnknownSources::release(const ServiceIdentity& account, Accounts& turned) {
  const auto at = holders_.find(account);
  if (at == holders_.end() || --at->second > 0) return;
  holders_.erase(at);
  turned.insert(account);
}

void UnknownSources::read_declared(const SpecSnapshot& spec, Accounts& turned) {
  Accounts fresh;
  for (const auto& account : spec.accounts) fresh.insert(identity_of(*account));
  const Accounts before = std::exchange(declared_, std::move(fresh));
  for (const ServiceIdentity& account : declared_)
    if (!before.contains(account)) hold(account, turned);
  for (const ServiceIdentity& account : before)
    if (!declared_.contains(account)) release(account, turned);
}

UnknownSources::Accounts UnknownSources::update_holders(const model::MeshSnapshot& before,
                                                        const model::MeshSnapshot& now) {
  Accounts turned;
  for (const model::ProxyKey& proxy : now.changes.workloads) {
    if (const auto entry = now.workloads.find(proxy))
      hold(identity_of(entry->workload.account), turned);
    if (const auto entry = before.workloads.find(proxy))
      release(identity_of(entry->workload.account), turned);
  }
  for (const ServiceName& service : now.changes.services) {
    if (const auto entry = now.services.find(service))
      for (const ServiceIdentity& account : entry->identities) hold(account, turned);
    if (const auto entry = before.services.find(service))
      for (const ServiceIdentity& account : entry->identities) release(account, turned);
  }
  return turned;
}

template <class Sources>
void UnknownSources::check(const ObjectKey& object, const char* field, const Sources& sources) {
  std::string first;
  std::size_t count = 0;
  for (const ServiceIdentity& source : sources)
    if (!holders_.contains(source) && count++ == 0) first = source.str();
  if (count == 0) {
    problems_.erase(object);
    return;
  }
  const std::string more = count == 1 ? "" : " (and " + std::to_string(count - 1) + " more)";
  problems_.insert_or_assign(
      object, dangling(object, field,
                       "nobody has the account " + first + more +
                           ": no workload runs as it, and no ServiceAccount object of the mesh has "
                           "that name; correct the name, or declare the account"));
}

void UnknownSources::update(const SpecChanges& spec, const model::MeshSnapshot& before,
                            const model::MeshSnapshot& now, const PolicyIndex& index) {
  Accounts turned = update_holders(before, now);
  if (spec.accounts) read_declared(*now.objects, turned);

  std::set<smi::ObjectName> targets = spec.targets;
  for (const ServiceIdentity& account : turned)
    for (const auto& target : index.with_source(account)) targets.insert(target->key());
  for (const smi::ObjectName& name : targets) {
    const auto target = now.targets.find(name);
    check(target_key(name), "spec.sources",
          target ? target->policy.sources : std::vector<ServiceIdentity>());
  }
  for (const auto& [key, present] : spec.objects)
    if (!present) problems_.erase(key);
  const bool policies = std::any_of(spec.objects.begin(), spec.objects.end(), [](const auto& one) {
    return one.first.is(kinds::kEgress) || one.first.is(kinds::kRetry);
  });
  if (!policies && turned.empty()) return;
  for (const auto& policy : now.objects->policies) {
    if (const auto* egress = policy->get<Egress>())
      check(policy->key, "spec.sources", egress->sources);
    if (const auto* retry = policy->get<Retry>())
      check(policy->key, "spec.source", std::vector{retry->source});
  }
}

void UnknownSources::add_problems(std::vector<Problem>& out) const {
  for (const auto& [object, problem] : problems_) out.push_back(problem);
}

std::vector<Problem> check_backends(const Table<model::ServiceEntry>& services,
                                    const Table<smi::TrafficSplit>& splits,
                                    const PolicyIndex& index) {
  std::vector<Problem> problems;
  for (const auto& split : splits) {
    const ObjectKey key = model::key_of(*split);
    const auto apex = services.find(split->service);
    if (!apex || apex->split_origin.object != key) continue;
    const std::set<ServiceIdentity> clients = clients_of(*apex, index);
    if (clients.empty()) continue;
    for (const smi::SplitBackend& share : split->backends) {
      const auto backend = services.find({split->name.ns, share.service});
      if (!backend || share.weight <= 0 || backend->identities.empty() ||
          share_one(clients, clients_of(*backend, index)))
        continue;
      problems.push_back(dangling(
          key, "spec.backends[" + std::to_string(share.place) + "].service",
          "no client of Service " + apex->name.str() + " may call Service " + backend->name.str() +
              ", so its share of the requests is answered with 503: add a TrafficTarget from " +
              clients.begin()->str() + (clients.size() == 1 ? "" : ", and other clients,") +
              " to " + names_of(backend->identities)));
    }
  }
  return problems;
}

std::vector<Problem> check_header_names(const SpecSnapshot& objects, const PolicyIndex& index) {
  std::vector<Problem> problems;
  for (const auto& group : objects.http_routes)
    for (const smi::HttpMatch& match : group->matches) {
      const std::string header = underscored_header(match);
      if (header.empty()) continue;
      const auto* service = refusing(objects, index, group->name, match.name);
      if (service == nullptr) continue;
      problems.push_back(
          {.code = ErrorCode::kUnusedField,
           .object = model::key_of(*group),
           .path = {},
           .field = "spec.matches",
           .cause = "match " + match.name + " has no effect: it asks for the header " + header +
                    ", and sidecars of Service " + service->name.str() +
                    " refuse requests with an underscore in a header's name; write '-' in place of "
                    "'_', or set the Service's annotation openservicemesh.io/http-header-names to "
                    "unchecked"});
    }
  return problems;
}

}  // namespace osm::inline v1::catalog
