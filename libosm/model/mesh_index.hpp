// Relations between the objects of a mesh, its entries and its proxies: an index of the links of
// all objects in both directions, and of the clients of each Service. Free functions are pure.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "model/links.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/values/spec_snapshot.hpp"
#include "osm/values/table.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1 {

// The key of an object is its own key in a table.
inline const ObjectKey& key_in_table(const ObjectKey& key) { return key; }

}  // namespace osm::inline v1

namespace osm::inline v1::model {

struct MeshSnapshot;
struct WorkloadEntry;

// Pairs of keys. A copy costs one pointer; a change shares the other pairs.
template <class From, class To>
class Relation {
 public:
  using Edits = std::map<From, std::map<To, std::shared_ptr<const To>>>;  // null: removed

  // The second keys of the pairs with this first one. Lifetime: the relation's.
  const Table<To>& of(const From& from) const {
    static const Table<To> kNone;
    const auto node = nodes_.find(from);
    return node ? node->to : kNone;
  }
  // Notes that `to` had pairs with `before`, and has pairs with `after`.
  static void replace(const std::set<From>& before, const std::set<From>& after, const To& to,
                      Edits& edits) {
    const auto shared = std::make_shared<const To>(to);
    for (const From& from : before)
      if (!after.contains(from)) edits[from][to] = nullptr;
    for (const From& from : after)
      if (!before.contains(from)) edits[from][to] = shared;
  }
  void apply(Edits edits) {
    std::map<From, std::shared_ptr<const Node>> nodes;
    for (auto& [from, edit] : edits) {
      Table<To> to = of(from).edited(std::move(edit));
      nodes[from] = to.empty() ? nullptr : std::make_shared<const Node>(Node{from, std::move(to)});
    }
    nodes_ = nodes_.edited(std::move(nodes));
  }

 private:
  struct Node {
    From from;
    Table<To> to;  // not empty
    const From& key() const { return from; }
  };
  Table<Node> nodes_;
};

// The index of one snapshot. An update costs the links of the changed objects, the upstreams of the
// changed identities, and pointers.
class MeshIndex {
 public:
  // The objects that shape the entry, or would shape it, by their own links.
  const Table<ObjectKey>& objects_of(const EntryKey& entry) const { return shaping_.of(entry); }
  // The objects that take over values of the object.
  const Table<ObjectKey>& readers_of(const ObjectKey& object) const { return readers_.of(object); }
  // The identities that a TrafficTarget lets call the Service, or an apex that splits to it. Nobody
  // in permissive mode.
  const Table<ServiceIdentity>& clients_of(const ServiceName& service) const {
    return clients_.of(service);
  }

  // Follows the changes from `before`, whose index this is, to `now`.
  void update(const MeshSnapshot& before, const MeshSnapshot& now);

 private:
  Relation<EntryKey, ObjectKey> shaping_;
  Relation<ObjectKey, ObjectKey> readers_;
  Relation<ServiceName, ServiceIdentity> clients_;
};

// The links of the object; without any if `spec` does not have it.
Links links_of(const ObjectKey& object, const SpecSnapshot& spec);

// The entries that change with an object, and those of the proxies that read one of them:
//
//   - MeshConfig, Namespace: the mesh
//   - workload: itself, and identities that may call its Services
//   - others: the entries of its links, and of the links of objects that read it; with a Service
//     its clients and as an apex its backends, whose workloads serve its names; and with a
//     Telemetry the workloads that it is in effect for
//   - in permissive mode the mesh for a Service, or a workload with Services
//
// Kinds are as in Changes::objects. An object that the snapshot does not have has no entry of its
// own.
std::set<EntryKey> entries_of(const ObjectKey& object, const MeshSnapshot& mesh);
std::set<EntryKey> entries_of(const Workload& workload, const MeshSnapshot& mesh);

// The workloads whose own entry, identity or Service is one of the entries, or all with the mesh;
// ordered by proxy key.
SharedList<WorkloadEntry> workloads_in(const std::set<EntryKey>& entries, const MeshSnapshot& mesh);

// False if nothing in the snapshot comes from the object, although its specification has it: a flag
// is off, another object comes first, or all that it names is missing. True for objects that the
// snapshot does not have, and for those whose values keep no Origin.
bool is_in_force(const ObjectKey& object, const MeshSnapshot& mesh);

}  // namespace osm::inline v1::model
