#include "model/mesh_index.hpp"

#include <algorithm>

#include "base/feed.hpp"
#include "model/mesh_snapshot.hpp"
#include "model/spec_tables.hpp"

namespace osm::inline v1::model {
namespace {

template <class Key, class List>
std::set<Key> set_of(const List& list) {
  return {list.begin(), list.end()};
}

// Services that the identity may call in SMI mode.
std::set<ServiceName> called_by(const ServiceIdentity& identity, const MeshSnapshot& mesh) {
  std::set<ServiceName> out;
  if (const auto policy = mesh.policies.find(identity))
    for (const Upstream& upstream : *policy->upstreams) out.insert(upstream.service);
  return out;
}

// The entries of the object's links, and of the links of objects that read it.
std::set<EntryKey> shaped_by(const ObjectKey& object, const MeshSnapshot& mesh) {
  std::set<EntryKey> out = set_of<EntryKey>(links_of(object, *mesh.objects).entries);
  for (const auto& reader : mesh.index.readers_of(object))
    out.merge(set_of<EntryKey>(links_of(*reader, *mesh.objects).entries));
  return out;
}

void add_clients(const ServiceName& service, const MeshSnapshot& mesh, std::set<EntryKey>& out) {
  if (mesh.config.proxy.permissive) out.emplace();
  for (const auto& client : mesh.index.clients_of(service)) out.insert(*client);
}

// Adds the backends of an apex, whose workloads serve its names.
void add_backends(const ServiceName& apex, const MeshSnapshot& mesh, std::set<EntryKey>& out) {
  if (const auto entry = mesh.services.find(apex); entry && entry->split)
    for (const WeightedCluster& backend : *entry->split) out.insert(backend.service);
}

// Walks an entry for feed(), and looks at origins alone.
struct OriginFinder {
  const ObjectKey& object;
  bool in_force = false;

  template <class Part>
  void add(const Part&) {}
  friend void feed(OriginFinder& finder, const Origin& origin) {
    finder.in_force |= origin.in_force && origin.object == finder.object;
  }
};

}  // namespace

void MeshIndex::update(const MeshSnapshot& before, const MeshSnapshot& now) {
  decltype(shaping_)::Edits shaping;
  decltype(readers_)::Edits readers;
  for (const ObjectKey& object : now.changes.objects) {
    const Links old = links_of(object, *before.objects);
    const Links fresh = links_of(object, *now.objects);
    shaping_.replace(set_of<EntryKey>(old.entries), set_of<EntryKey>(fresh.entries), object,
                     shaping);
    readers_.replace(set_of<ObjectKey>(old.reads), set_of<ObjectKey>(fresh.reads), object, readers);
  }
  decltype(clients_)::Edits clients;
  for (const ServiceIdentity& identity : now.changes.identities)
    if (before.upstreams_of(identity) != now.upstreams_of(identity))
      clients_.replace(called_by(identity, before), called_by(identity, now), identity, clients);
  shaping_.apply(std::move(shaping));
  readers_.apply(std::move(readers));
  clients_.apply(std::move(clients));
}

Links links_of(const ObjectKey& object, const SpecSnapshot& spec) {
  Links out;
  for_each_list([&](auto list) {
    const auto& table = spec.*list;
    if (!may_hold(table, object)) return;
    if (const auto one = table.find(name_in(table, object))) out = links_of(*one);
  });
  return out;
}

std::set<EntryKey> entries_of(const ObjectKey& object, const MeshSnapshot& mesh) {
  if (object.is(kinds::kMeshConfig) || object.is(kinds::kNamespace)) return {EntryKey()};
  if (object.is(kWorkloadKind)) {
    std::set<EntryKey> out;
    for (const auto& entry : mesh.workloads)
      if (entry->workload.name == WorkloadName{object.ns, object.name})
        out.merge(entries_of(entry->workload, mesh));
    return out;
  }
  const std::set<EntryKey> shaped = shaped_by(object, mesh);
  std::set<EntryKey> out = shaped;
  for (const EntryKey& key : shaped) {
    if (const auto* service = std::get_if<ServiceName>(&key)) {
      add_clients(*service, mesh, out);
      add_backends(*service, mesh, out);
    }
    if (const auto* telemetry = std::get_if<TelemetryName>(&key))
      for (const auto& entry : mesh.workloads)
        if (entry->telemetry == *telemetry) out.insert(entry->workload.name);
  }
  return out;
}

std::set<EntryKey> entries_of(const Workload& workload, const MeshSnapshot& mesh) {
  std::set<EntryKey> out{workload.name};
  for (const ServiceName& service : workload.services) add_clients(service, mesh, out);
  return out;
}

SharedList<WorkloadEntry> workloads_in(const std::set<EntryKey>& entries,
                                       const MeshSnapshot& mesh) {
  const bool everything = entries.contains(EntryKey());
  const auto is_read = [&](const auto& name) { return entries.contains(EntryKey(name)); };
  SharedList<WorkloadEntry> out;
  for (const auto& entry : mesh.workloads) {
    const Workload& workload = entry->workload;
    if (everything || is_read(identity_of(workload.account)) || is_read(workload.name) ||
        std::ranges::any_of(workload.services, is_read))
      out.push_back(entry);
  }
  return out;
}

bool is_in_force(const ObjectKey& object, const MeshSnapshot& mesh) {
  if (!links_of(object, *mesh.objects).origins) return true;
  OriginFinder finder{object};
  const auto look = [&](const auto& entry) {
    if (entry) osm::feed(finder, *entry);
  };
  for (const EntryKey& key : shaped_by(object, mesh)) {
    if (const auto* target = std::get_if<smi::ObjectName>(&key)) look(mesh.targets.find(*target));
    if (const auto* service = std::get_if<ServiceName>(&key)) look(mesh.services.find(*service));
    if (const auto* client = std::get_if<ServiceIdentity>(&key)) look(mesh.clients.find(*client));
    if (const auto* log = std::get_if<TelemetryName>(&key)) look(mesh.telemetries.find(*log));
  }
  return finder.in_force;
}

}  // namespace osm::inline v1::model
