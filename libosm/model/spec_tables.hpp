// The tables of a SpecSnapshot by kind. Whatever is done with the objects of every kind that shapes
// proxies goes through for_each_list(), so that a new table is added here and nowhere else.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "osm/object.hpp"
#include "osm/values/spec_snapshot.hpp"

namespace osm::inline v1::model {

// Calls visit(table) with the member for each table whose objects shape proxies. A kind that refers
// to others comes before them.
template <class Visit>
void for_each_list(Visit visit) {
  visit(&SpecSnapshot::policies);
  visit(&SpecSnapshot::services);
  visit(&SpecSnapshot::targets);
  visit(&SpecSnapshot::splits);
  visit(&SpecSnapshot::tcp_routes);
  visit(&SpecSnapshot::http_routes);
}
// The same for each table.
template <class Visit>
void for_each_table(Visit visit) {
  for_each_list(visit);
  visit(&SpecSnapshot::accounts);
  visit(&SpecSnapshot::roots);
}

// The one MeshConfig of a mesh, whatever its object's name is.
inline ObjectKey mesh_config_key() { return {kinds::kMeshConfig, {}, {}}; }

inline constexpr GroupKind kind_of(std::type_identity<Service>) { return kinds::kService; }
inline constexpr GroupKind kind_of(std::type_identity<smi::TrafficTarget>) {
  return kinds::kTrafficTarget;
}
inline constexpr GroupKind kind_of(std::type_identity<smi::TrafficSplit>) {
  return kinds::kTrafficSplit;
}
inline constexpr GroupKind kind_of(std::type_identity<smi::TcpRoute>) { return kinds::kTcpRoute; }
inline constexpr GroupKind kind_of(std::type_identity<smi::HttpRouteGroup>) {
  return kinds::kHttpRouteGroup;
}

template <class T>
ObjectKey key_of(const T& object) {
  return {kind_of(std::type_identity<T>()), object.name.ns, object.name.name};
}
inline ObjectKey key_of(const Policy& policy) { return policy.key; }
inline ObjectKey key_of(const ServiceAccount& account) {
  return {kinds::kServiceAccount, account.ns, account.name};
}
inline ObjectKey key_of(const MeshRootCertificate& root, const std::string& control_plane) {
  return {kinds::kMeshRootCertificate, control_plane, root.name};
}

// True if the table holds objects of the key's kind: its own, and `policies` those of no other.
template <class T>
bool may_hold(const Table<T>&, const ObjectKey& key) {
  constexpr std::array kOwn{kinds::kService, kinds::kTrafficTarget, kinds::kTrafficSplit,
                            kinds::kTcpRoute, kinds::kHttpRouteGroup};
  if constexpr (std::is_same_v<T, Policy>) {
    return std::find(kOwn.begin(), kOwn.end(), key.group_kind()) == kOwn.end();
  } else {
    return key.is(kind_of(std::type_identity<T>()));
  }
}

// The table's key of an object that it may hold.
template <class T>
typename Table<T>::Key name_in(const Table<T>&, const ObjectKey& key) {
  if constexpr (std::is_same_v<T, Policy>) {
    return key;
  } else {
    return {key.ns, key.name};
  }
}

// True if both are absent or have equal values.
template <class T>
bool same(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) {
  return a == b || (a && b && *a == *b);
}

// The keys of all objects whose values differ, ordered; removed ones, Namespaces and the MeshConfig
// by its own name included.
std::vector<ObjectKey> differing(const SpecSnapshot& before, const SpecSnapshot& after);
// The same, with false for each object that `after` does not have.
std::map<ObjectKey, bool> differences(const SpecSnapshot& before, const SpecSnapshot& after);

// The objects of `after` that shape proxies and that `before` lacks or has with another value, in
// the order of for_each_list(), then by name; a MeshConfig first. Removed objects are not included.
std::vector<ObjectKey> new_in(const SpecSnapshot& before, const SpecSnapshot& after);

// `after`, except that the objects of `old` that shape proxies are as in `before`: with another
// value, or absent.
SpecSnapshot mixed(const SpecSnapshot& before, const SpecSnapshot& after,
                   const std::set<ObjectKey>& old);

}  // namespace osm::inline v1::model
