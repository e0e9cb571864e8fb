// The decoded objects of one generation of the mesh, shared. Whatever is done with the objects of
// every kind goes through for_each_list(), so that a new list is added here and nowhere else.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/policy.hpp"

namespace osm::inline v1::model {

// Lists are ordered by name, `policies` by key.
struct SpecObjects {
  MeshConfig config;
  std::vector<std::string> namespaces;  // namespaces of the mesh
  std::string control_plane_namespace;  // never changes
  SharedList<Service> services;
  SharedList<smi::TrafficTarget> targets;
  SharedList<smi::TrafficSplit> splits;
  SharedList<smi::TcpRoute> tcp_routes;
  SharedList<smi::HttpRouteGroup> http_routes;
  SharedList<Policy> policies;
};

// Calls visit(list, read) for every list but the namespaces, with the member and the MeshSpec's
// function that fills it. A kind that refers to others comes before them.
template <class Visit>
void for_each_list(Visit visit) {
  visit(&SpecObjects::policies, &MeshSpec::list_policies);
  visit(&SpecObjects::services, &ServiceReader::list_services);
  visit(&SpecObjects::targets, &SmiReader::list_traffic_targets);
  visit(&SpecObjects::splits, &SmiReader::list_traffic_splits);
  visit(&SpecObjects::tcp_routes, &SmiReader::list_tcp_traffic_specs);
  visit(&SpecObjects::http_routes, &SmiReader::list_http_traffic_specs);
}

// The one MeshConfig of a mesh, whatever its object's name is.
inline ObjectKey mesh_config_key() { return {kinds::kMeshConfig, {}, {}}; }

// An object's key without copies: kind, group, namespace, name. In the order of ObjectKey.
using KeyView = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>;
inline KeyView key_view(const GroupKind& kind, std::string_view ns, std::string_view name) {
  return {kind.kind, kind.group, ns, name};
}
inline KeyView key_view(const ObjectKey& key) {
  return key_view(key.group_kind(), key.ns, key.name);
}
inline KeyView key_view(const Policy& policy) { return key_view(policy.key); }
inline KeyView key_view(const ServiceAccount& account) {
  return key_view(kinds::kServiceAccount, account.ns, account.name);
}
inline constexpr GroupKind kind_of(const Service&) { return kinds::kService; }
inline constexpr GroupKind kind_of(const smi::TrafficTarget&) { return kinds::kTrafficTarget; }
inline constexpr GroupKind kind_of(const smi::TrafficSplit&) { return kinds::kTrafficSplit; }
inline constexpr GroupKind kind_of(const smi::TcpRoute&) { return kinds::kTcpRoute; }
inline constexpr GroupKind kind_of(const smi::HttpRouteGroup&) { return kinds::kHttpRouteGroup; }
template <class T>
KeyView key_view(const T& object) {
  return key_view(kind_of(object), object.name.ns, object.name.name);
}

template <class T>
ObjectKey key_of(const T& object) {
  const auto [kind, group, ns, name] = key_view(object);
  return {GroupKind{group, kind}, std::string(ns), std::string(name)};
}

// True if the list holds objects of the key's kind: its own, and `policies` those of no other list.
template <class T>
bool may_hold(const SharedList<T>&, const ObjectKey& key) {
  constexpr std::array kOwn{kinds::kService, kinds::kTrafficTarget, kinds::kTrafficSplit,
                            kinds::kTcpRoute, kinds::kHttpRouteGroup};
  if constexpr (std::is_same_v<T, Policy>) {
    return std::find(kOwn.begin(), kOwn.end(), key.group_kind()) == kOwn.end();
  } else {
    return key.is(kind_of(T()));
  }
}

// The place of `key` in an ordered list.
template <class List>
auto place_of(List& list, const ObjectKey& key) {
  return std::lower_bound(
      list.begin(), list.end(), key_view(key),
      [](const auto& object, const KeyView& wanted) { return key_view(*object) < wanted; });
}

// The object; null if the list does not have it.
template <class T>
std::shared_ptr<const T> find(const SharedList<T>& list, const ObjectKey& key) {
  const auto at = place_of(list, key);
  return at != list.end() && key_view(**at) == key_view(key) ? *at : nullptr;
}

// True if both are absent or have equal values.
template <class T>
bool same(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) {
  return a == b || (a && b && *a == *b);
}

// Adds the keys whose objects differ between two ordered lists. Pointers are compared first, so
// that unchanged objects cost little.
template <class T>
void add_differing(const SharedList<T>& before, const SharedList<T>& after,
                   std::vector<ObjectKey>& out) {
  auto a = before.begin();
  auto b = after.begin();
  while (a != before.end() || b != after.end()) {
    const bool only_a = b == after.end() || (a != before.end() && key_view(**a) < key_view(**b));
    const bool only_b = a == before.end() || (b != after.end() && key_view(**b) < key_view(**a));
    if (only_a || only_b || !same(*a, *b)) out.push_back(key_of(only_a ? **a : **b));
    if (!only_b) ++a;
    if (!only_a) ++b;
  }
}

// The keys of all objects whose values differ, removed ones included; a MeshConfig first.
std::vector<ObjectKey> differing(const SpecObjects& before, const SpecObjects& after);

// The objects of `after` that `before` lacks or has with another value, in the order of
// for_each_list(), then by name; a MeshConfig first. Removed objects are not included.
std::vector<ObjectKey> new_in(const SpecObjects& before, const SpecObjects& after);

// `after`, except that the objects of `old` are as in `before`: with another value, or absent.
SpecObjects mixed(const SpecObjects& before, const SpecObjects& after,
                  const std::set<ObjectKey>& old);

}  // namespace osm::inline v1::model
