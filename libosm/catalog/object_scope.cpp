#include "catalog/object_scope.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "catalog/resolve_egress.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::catalog {
namespace {

class ScopeFinder {
 public:
  ScopeFinder(const model::MeshSnapshot& snapshot, const PolicyIndex& index)
      : snapshot_(snapshot), index_(index) {}

  ObjectScope find_scope(const ObjectKey& object) && {
    const smi::ObjectName name{object.ns, object.name};
    if (object.is(kinds::kTrafficTarget)) {
      if (const auto target = snapshot_.targets.find(name)) add_parties(*target, scope_.identities);
    } else if (object.is(kinds::kHttpRouteGroup)) {
      add_users(smi::RouteKind::kHttpRouteGroup, name);
      add_egress_sources(object);
    } else if (object.is(kinds::kTcpRoute)) {
      add_users(smi::RouteKind::kTcpRoute, name);
    } else if (object.is(kinds::kTrafficSplit)) {
      add_split(object);
    } else if (object.is(kinds::kService)) {
      add_service({object.ns, object.name});
    } else if (object.is(model::kWorkloadKind)) {
      for (const auto& entry : snapshot_.workloads)
        if (entry->workload.name == WorkloadName{object.ns, object.name})
          scope_.merge(scope_of(entry->workload, snapshot_, index_));
    } else if (object.is(kinds::kTelemetry)) {
      add_logging({{object.ns, object.name}});
    } else if (object.is(kinds::kExtensionService)) {
      add_exporting({object.ns, object.name});
    } else if (object.is(kinds::kMeshConfig) || object.is(kinds::kNamespace)) {
      scope_.everything = true;
    } else {
      add_policy(object);
    }
    return std::move(scope_);
  }

 private:
  // Adds the identities that run the service and those that may call it.
  void add_service(const ServiceName& service) {
    scope_.everything |= snapshot_.config.proxy.permissive;
    scope_.services.insert(service);
    add_clients({&service, 1}, snapshot_.services, index_, scope_.identities);
  }

  void add_split(const ObjectKey& object) {
    const auto split =
        snapshot_.objects ? snapshot_.objects->splits.find({object.ns, object.name}) : nullptr;
    if (!split) return;
    add_service(split->service);
    for (const smi::SplitBackend& backend : split->backends)
      add_service({object.ns, backend.service});
  }

  // Adds the sources of Egresses that name the object.
  void add_egress_sources(const ObjectKey& object) {
    if (!snapshot_.objects) return;
    for (const auto& policy : snapshot_.objects->policies) {
      const std::vector<ObjectKey> named = named_by_egress(*policy);
      if (std::find(named.begin(), named.end(), object) == named.end()) continue;
      scope_.identities.insert(policy->reach.accounts.begin(), policy->reach.accounts.end());
    }
  }

  void add_policy(const ObjectKey& object) {
    const auto policy = snapshot_.objects ? snapshot_.objects->policies.find(object) : nullptr;
    if (!policy) return;
    scope_.everything = policy->reach.everything;
    scope_.identities = policy->reach.accounts;
    add_egress_sources(object);
    for (const ServiceName& service : policy->reach.services) {
      add_service(service);
      // Backends serve the apex's host names.
      if (const auto entry = snapshot_.services.find(service); entry && entry->split)
        for (const WeightedCluster& backend : *entry->split)
          scope_.services.insert(backend.service);
    }
  }

  // Adds the workloads with one of these Telemetries in effect.
  void add_logging(const std::set<TelemetryName>& telemetries) {
    for (const auto& entry : snapshot_.workloads)
      if (entry->telemetry && telemetries.contains(*entry->telemetry))
        scope_.workloads.insert(entry->workload.name);
  }

  void add_exporting(const ExtensionServiceName& server) {
    std::set<TelemetryName> telemetries;
    for (const auto& entry : snapshot_.telemetries)
      if (entry->collector && entry->collector->name == server) telemetries.insert(entry->name);
    add_logging(telemetries);
  }

  // Adds the sources and destinations of targets with such a rule.
  void add_users(smi::RouteKind kind, const smi::ObjectName& route) {
    if (!snapshot_.objects) return;
    for (const auto& target : snapshot_.objects->targets) {
      const bool uses = std::any_of(
          target->rules.begin(), target->rules.end(), [&](const smi::TrafficTargetRule& rule) {
            return rule.kind == kind && rule.name == route.name && target->name.ns == route.ns;
          });
      if (!uses) continue;
      if (const auto entry = snapshot_.targets.find(target->name))
        add_parties(*entry, scope_.identities);
    }
  }

  const model::MeshSnapshot& snapshot_;
  const PolicyIndex& index_;
  ObjectScope scope_;
};

bool is_in_force(const model::Origin& origin, const ObjectKey& object) {
  return origin.in_force && origin.object == object;
}

bool is_sent_again(const ObjectKey& object, const Retry& retry, const model::MeshSnapshot& mesh) {
  const auto client = mesh.clients.find(retry.source);
  if (!client) return false;
  return std::any_of(client->retries.begin(), client->retries.end(),
                     [&](const auto& one) { return is_in_force(one.second.origin, object); });
}

bool opens_a_port(const ObjectKey& object, const Egress& egress, const model::MeshSnapshot& mesh) {
  return std::any_of(egress.sources.begin(), egress.sources.end(), [&](const auto& source) {
    const auto client = mesh.clients.find(source);
    return client && std::any_of(client->egress.begin(), client->egress.end(),
                                 [&](const model::EgressGrant& grant) {
                                   return is_in_force(grant.origin, object);
                                 });
  });
}

bool admits(const ObjectKey& object, const IngressBackend& ingress,
            const model::MeshSnapshot& mesh) {
  return std::any_of(
      ingress.backends.begin(), ingress.backends.end(), [&](const IngressTarget& target) {
        const auto service = mesh.services.find(target.service);
        return service &&
               std::any_of(service->ingress.begin(), service->ingress.end(),
                           [&](const auto& one) { return is_in_force(one.second.origin, object); });
      });
}

// A setting limits a Service, or the hosts of the Egresses that name it.
bool is_limit_in_force(const ObjectKey& object, const UpstreamTrafficSetting& setting,
                       const model::MeshSnapshot& mesh) {
  const auto service = mesh.services.find(setting.service);
  if (service && is_in_force(service->limits_origin, object)) return true;
  const std::string name = object.ns + '/' + object.name;
  return std::any_of(mesh.clients.begin(), mesh.clients.end(), [&](const auto& client) {
    return std::any_of(client->egress.begin(), client->egress.end(),
                       [&](const model::EgressGrant& grant) {
                         return grant.origin.in_force && grant.setting == name;
                       });
  });
}

bool policy_has_effect(const Policy& policy, const model::MeshSnapshot& mesh) {
  if (const auto* retry = policy.get<Retry>()) return is_sent_again(policy.key, *retry, mesh);
  if (const auto* egress = policy.get<Egress>()) return opens_a_port(policy.key, *egress, mesh);
  if (const auto* ingress = policy.get<IngressBackend>()) return admits(policy.key, *ingress, mesh);
  if (const auto* setting = policy.get<UpstreamTrafficSetting>())
    return is_limit_in_force(policy.key, *setting, mesh);
  if (const auto* order = policy.get<ServiceProvider>()) {
    const auto service = mesh.services.find(order->service);
    return service && is_in_force(service->order_origin, policy.key);
  }
  return true;
}

}  // namespace

bool has_effect(const ObjectKey& object, const model::MeshSnapshot& snapshot,
                const SpecSnapshot& objects) {
  const smi::ObjectName name{object.ns, object.name};
  if (object.is(kinds::kTrafficTarget)) {
    const auto target = snapshot.targets.find(name);
    return !target || target->origin.in_force;
  }
  if (object.is(kinds::kTrafficSplit)) {
    const auto split = objects.splits.find(name);
    const auto apex = split ? snapshot.services.find(split->service) : nullptr;
    return !split || (apex && is_in_force(apex->split_origin, object));
  }
  if (object.is(kinds::kService)) {
    const auto service = snapshot.services.find({object.ns, object.name});
    return !service || service->origin.in_force;
  }
  const auto policy = objects.policies.find(object);
  return !policy || policy_has_effect(*policy, snapshot);
}

void ObjectScope::merge(const ObjectScope& other) {
  everything |= other.everything;
  identities.insert(other.identities.begin(), other.identities.end());
  services.insert(other.services.begin(), other.services.end());
  workloads.insert(other.workloads.begin(), other.workloads.end());
}

ObjectScope scope_of(const ObjectKey& object, const model::MeshSnapshot& snapshot,
                     const PolicyIndex& index) {
  return ScopeFinder(snapshot, index).find_scope(object);
}

ObjectScope scope_of(const Workload& workload, const model::MeshSnapshot& snapshot,
                     const PolicyIndex& index) {
  ObjectScope scope;
  scope.everything = snapshot.config.proxy.permissive && !workload.services.empty();
  scope.workloads.insert(workload.name);
  add_clients(workload.services, snapshot.services, index, scope.identities);
  return scope;
}

std::vector<std::shared_ptr<const model::WorkloadEntry>> workloads_in(
    const ObjectScope& scope, const model::MeshSnapshot& snapshot) {
  std::vector<std::shared_ptr<const model::WorkloadEntry>> out;
  for (const auto& entry : snapshot.workloads) {
    const Workload& workload = entry->workload;
    const bool in_scope =
        scope.everything || scope.identities.contains(identity_of(workload.account)) ||
        scope.workloads.contains(workload.name) ||
        std::any_of(workload.services.begin(), workload.services.end(),
                    [&](const ServiceName& service) { return scope.services.contains(service); });
    if (in_scope) out.push_back(entry);
  }
  return out;
}

void add_clients(std::span<const ServiceName> names, const Table<model::ServiceEntry>& services,
                 const PolicyIndex& index, std::set<ServiceIdentity>& out) {
  std::set<ServiceIdentity> accounts;
  std::set<std::string> idle_namespaces;
  const auto add_clients_of = [&](const model::ServiceEntry& called) {
    accounts.insert(called.identities.begin(), called.identities.end());
    if (called.idle) idle_namespaces.insert(called.name.ns);
  };
  for (const ServiceName& name : names) {
    const auto entry = services.find(name);
    if (!entry) continue;
    add_clients_of(*entry);
    for (const ServiceName& apex : entry->apexes)
      if (const auto called = services.find(apex)) add_clients_of(*called);
  }
  const auto add_sources = [&](const PolicyIndex::Targets& targets) {
    for (const auto& target : targets)
      out.insert(target->policy.sources.begin(), target->policy.sources.end());
  };
  for (const ServiceIdentity& account : accounts) add_sources(index.with_destination(account));
  for (const std::string& ns : idle_namespaces) add_sources(index.with_destination_in(ns));
}

void add_parties(const model::TargetEntry& target, std::set<ServiceIdentity>& out) {
  out.insert(target.destination);
  out.insert(target.policy.sources.begin(), target.policy.sources.end());
}

}  // namespace osm::inline v1::catalog
