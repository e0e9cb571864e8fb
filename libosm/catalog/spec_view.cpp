#include "catalog/spec_view.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace osm::inline v1::catalog {
namespace {

template <class T>
using NameOf = std::decay_t<decltype(std::declval<const T&>().name)>;

// Names whose value differs between two lists; true: `after` has the name. Unchanged objects
// usually keep their pointer, so this is cheap.
template <class T>
std::map<NameOf<T>, bool> differing(const SharedList<T>& before, const SharedList<T>& after) {
  std::map<NameOf<T>, std::shared_ptr<const T>> old;
  for (const auto& object : before) old.emplace(object->name, object);
  std::map<NameOf<T>, bool> out;
  for (const auto& object : after) {
    const auto at = old.find(object->name);
    if (at == old.end()) {
      out.emplace(object->name, true);
      continue;
    }
    if (at->second != object && !(*at->second == *object)) out.emplace(object->name, true);
    old.erase(at);
  }
  for (const auto& [name, object] : old) out.emplace(name, false);
  return out;
}

// Result: the names that differ; adds their keys to `objects`.
template <class T>
std::set<NameOf<T>> replace(SharedList<T>& held, SharedList<T> fresh, const char* kind,
                            std::map<ObjectKey, bool>& objects) {
  std::set<NameOf<T>> changed;
  for (const auto& [name, present] : differing(held, fresh)) {
    changed.insert(name);
    objects[{kind, name.ns, name.name}] = present;
  }
  held = std::move(fresh);
  return changed;
}

}  // namespace

void SpecView::invalidate(const std::vector<ObjectKey>& changed) {
  for (const ObjectKey& key : changed) {
    kinds_.insert(key.kind);
    if (key.kind == "MeshConfig") config_key_ = key;
    // The objects of a namespace that joins or leaves the mesh are not announced one by one.
    everything_ |= key.kind == "Namespace";
  }
}

SpecChanges SpecView::refresh() {
  SpecChanges changes;
  auto& objects = changes.objects;
  const auto asked = [&](const char* kind) { return everything_ || kinds_.contains(kind); };
  if (asked("MeshConfig")) {
    const MeshConfig fresh = spec_.get_mesh_config();
    changes.config = !(fresh == std::exchange(config_, fresh));
    if (changes.config) objects[config_key_] = true;  // without an object its defaults apply
  }
  if (asked("Namespace")) {
    const std::vector<std::string> list = spec_.list_namespaces();
    const std::set<std::string> fresh(list.begin(), list.end());
    const std::set<std::string> before = std::exchange(namespaces_, fresh);
    for (const std::string& name : fresh)
      if (!before.contains(name)) objects[{"Namespace", {}, name}] = true;
    for (const std::string& name : before)
      if (!fresh.contains(name)) objects[{"Namespace", {}, name}] = false;
    changes.namespaces = fresh != before;
  }
  if (asked("Service")) {
    changes.services = replace(services_, spec_.list_services(), "Service", objects);
    if (!changes.services.empty()) {
      services_by_name_.clear();
      for (const auto& service : services_) services_by_name_.emplace(service->name, service);
    }
  }
  if (asked("TrafficSplit"))
    changes.splits =
        !replace(splits_, spec_.list_traffic_splits(), "TrafficSplit", objects).empty();
  if (asked("HTTPRouteGroup"))
    changes.routes |=
        !replace(http_routes_, spec_.list_http_traffic_specs(), "HTTPRouteGroup", objects).empty();
  if (asked("TCPRoute"))
    changes.routes |=
        !replace(tcp_routes_, spec_.list_tcp_traffic_specs(), "TCPRoute", objects).empty();
  if (asked("TrafficTarget"))
    changes.targets = replace(targets_, spec_.list_traffic_targets(), "TrafficTarget", objects);
  everything_ = false;
  kinds_.clear();
  return changes;
}

}  // namespace osm::inline v1::catalog
