#include "catalog/object_scope.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/maps.hpp"
#include "model/spec_tables.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::catalog {
namespace {

class ScopeFinder {
 public:
  ScopeFinder(const model::MeshSnapshot& snapshot, const PolicyIndex& index, ReaderEntries& readers)
      : snapshot_(snapshot), index_(index), readers_(readers) {}

  ObjectScope find_scope(const ObjectKey& object) && {
    if (object.is(kinds::kMeshConfig) || object.is(kinds::kNamespace)) {
      scope_.everything = true;
    } else if (object.is(kinds::kService)) {
      add(ServiceName{object.ns, object.name});
    } else if (object.is(model::kWorkloadKind)) {
      for (const auto& entry : snapshot_.workloads)
        if (entry->workload.name == WorkloadName{object.ns, object.name})
          scope_.merge(scope_of(entry->workload, snapshot_, index_));
    } else if (snapshot_.objects) {
      add_linked(object);
      if (!object.is(kinds::kTrafficSplit)) add_backends();
    }
    return std::move(scope_);
  }

 private:
  // Adds the readers of the entries that the object shapes, and that objects that read it shape.
  void add_linked(const ObjectKey& object) {
    const SpecSnapshot& objects = *snapshot_.objects;
    model::for_each_list([&](auto list) {
      const auto& table = objects.*list;
      if (!model::may_hold(table, object)) return;
      if (const auto one = table.find(model::name_in(table, object)))
        add(model::links_of(*one).entries);
    });
    // Objects of other kinds are read by none.
    if (!object.is(kinds::kHttpRouteGroup) && !object.is(kinds::kTcpRoute) &&
        !object.is(kinds::kUpstreamTrafficSetting) && !object.is(kinds::kExtensionService))
      return;
    if (!readers_) note_readers(objects);
    if (const auto* entries = find_in(*readers_, object)) add(*entries);
  }

  void note_readers(const SpecSnapshot& objects) {
    readers_.emplace();
    const auto note = [&](const auto& table) {
      for (const auto& one : table) {
        const model::Links links = model::links_of(*one);
        for (const ObjectKey& read : links.reads) {
          auto& entries = (*readers_)[read];
          entries.insert(entries.end(), links.entries.begin(), links.entries.end());
        }
      }
    };
    note(objects.targets);
    note(objects.policies);
  }

  void add(const std::vector<model::EntryKey>& entries) {
    for (const model::EntryKey& entry : entries)
      std::visit([&](const auto& name) { add(name); }, entry);
  }
  void add(std::monostate) { scope_.everything = true; }
  void add(const smi::ObjectName&) {}  // its identities are entries, too
  void add(const ServiceIdentity& identity) { scope_.identities.insert(identity); }
  // Adds the workloads with the Telemetry in effect.
  void add(const TelemetryName& telemetry) {
    for (const auto& entry : snapshot_.workloads)
      if (entry->telemetry == telemetry) scope_.workloads.insert(entry->workload.name);
  }

  // Adds the service, whose workloads read it, and the identities that may call it.
  void add(const ServiceName& service) {
    if (!scope_.services.insert(service).second) return;
    scope_.everything |= snapshot_.config.proxy.permissive;
    add_clients({&service, 1}, snapshot_.services, index_, scope_.identities);
  }

  // Adds the backends of the Services, which serve the apex's host names.
  void add_backends() {
    const std::set<ServiceName> apexes = scope_.services;
    for (const ServiceName& apex : apexes)
      if (const auto entry = snapshot_.services.find(apex); entry && entry->split)
        for (const WeightedCluster& one : *entry->split) scope_.services.insert(one.service);
  }

  const model::MeshSnapshot& snapshot_;
  const PolicyIndex& index_;
  ReaderEntries& readers_;
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
                     const PolicyIndex& index, ReaderEntries& readers) {
  return ScopeFinder(snapshot, index, readers).find_scope(object);
}

ObjectScope scope_of(const ObjectKey& object, const model::MeshSnapshot& snapshot,
                     const PolicyIndex& index) {
  ReaderEntries readers;
  return scope_of(object, snapshot, index, readers);
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
