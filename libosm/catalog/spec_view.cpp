#include "catalog/spec_view.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace osm::inline v1::catalog {
namespace {

// Takes over the objects of `keys` from `fresh`. Another object that differs has an event of its
// own, which must find the difference.
template <class T>
void replace(Table<T>& held, const Table<T>& fresh, const std::vector<ObjectKey>& keys,
             std::map<ObjectKey, bool>& changed) {
  std::map<typename Table<T>::Key, typename Table<T>::Entry> edits;
  for (const ObjectKey& key : keys) {
    const auto name = model::name_in(held, key);
    auto now = fresh.find(name);
    if (model::same(now, held.find(name))) continue;
    changed[key] = now != nullptr;
    edits.emplace(name, std::move(now));
  }
  held = held.edited(std::move(edits));
}

}  // namespace

void SpecView::invalidate(const std::vector<ObjectKey>& changed) {
  for (const ObjectKey& key : changed) {
    if (key.is(kinds::kMeshConfig)) config_key_ = key;
    // The objects of a namespace that joins or leaves the mesh are not announced one by one.
    everything_ |= key.is(kinds::kNamespace);
    stale_.insert(key);
  }
}

void SpecView::invalidate_changed(const std::set<ServiceName>& services) {
  for (const ServiceName& name : services)
    if (!model::same(spec_.get_service(name), find_service(name)))
      stale_.insert({kinds::kService, name.ns, name.name});
}

void SpecView::refresh_config(std::map<ObjectKey, bool>& changed) {
  MeshConfig fresh = spec_.get_mesh_config();
  if (fresh == *objects_.config) return;
  objects_.config = std::make_shared<const MeshConfig>(std::move(fresh));
  changed[config_key_] = true;  // without an object its defaults apply
}

// True if there is a difference.
bool SpecView::refresh_namespaces(std::map<ObjectKey, bool>& changed) {
  objects_.namespaces = spec_.list_namespaces();
  const std::set<std::string> before =
      std::exchange(namespaces_, {objects_.namespaces.begin(), objects_.namespaces.end()});
  std::vector<std::string> turned;
  std::set_symmetric_difference(before.begin(), before.end(), namespaces_.begin(),
                                namespaces_.end(), std::back_inserter(turned));
  for (const std::string& name : turned)
    changed[{kinds::kNamespace, {}, name}] = namespaces_.contains(name);
  return !turned.empty();
}

SpecChanges SpecView::refresh() {
  SpecChanges changes;
  const bool everything = std::exchange(everything_, false);
  const std::set<ObjectKey> stale = std::exchange(stale_, {});
  changes.accounts = std::any_of(stale.begin(), stale.end(), [](const ObjectKey& key) {
    return key.is(kinds::kServiceAccount);
  });
  if (everything || stale.contains(config_key_)) refresh_config(changes.objects);
  if (everything) {
    objects_.config_key.ns = spec_.control_plane_namespace();
    changes.namespaces = refresh_namespaces(changes.objects);
  }
  model::for_each_list([&]<class T>(Table<T> SpecSnapshot::*table, auto read) {
    Table<T>& held = objects_.*table;
    std::vector<ObjectKey> keys;
    std::copy_if(stale.begin(), stale.end(), std::back_inserter(keys),
                 [&](const ObjectKey& key) { return model::may_hold(held, key); });
    if (keys.empty() && !everything) return;
    const auto fresh = Table<T>::sorted((spec_.*read)());
    if (!everything) return replace(held, fresh, keys, changes.objects);
    Table<T>::compare(held, fresh, [&](const auto& old, const auto& now) {
      changes.objects[model::key_of(now ? *now : *old)] = now != nullptr;
    });
    held = fresh;
  });
  for (const auto& [key, present] : changes.objects) {
    if (key.is(kinds::kService)) changes.services.emplace(key.ns, key.name);
    if (key.is(kinds::kTrafficTarget)) changes.targets.emplace(key.ns, key.name);
    changes.splits |= key.is(kinds::kTrafficSplit);
    changes.routes |= key.is(kinds::kHttpRouteGroup) || key.is(kinds::kTcpRoute);
  }
  return changes;
}

}  // namespace osm::inline v1::catalog
