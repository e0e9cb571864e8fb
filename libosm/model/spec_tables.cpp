#include "model/spec_tables.hpp"

#include <iterator>
#include <map>
#include <utility>

namespace osm::inline v1::model {

std::vector<ServiceAccount> named_accounts(const Table<smi::TrafficTarget>& targets) {
  std::set<ServiceAccount> named;
  for (const auto& target : targets) {
    named.insert(target->destination);
    named.insert(target->sources.begin(), target->sources.end());
  }
  return {named.begin(), named.end()};
}

std::vector<ObjectKey> differing(const SpecSnapshot& before, const SpecSnapshot& after) {
  std::vector<ObjectKey> keys;
  const auto add = [&]<class T>(Table<T> SpecSnapshot::*table, auto... control_plane) {
    Table<T>::compare(before.*table, after.*table, [&](const auto& old, const auto& now) {
      keys.push_back(key_of(now ? *now : *old, control_plane...));
    });
  };
  for_each_list([&](auto table, auto) { add(table); });
  add(&SpecSnapshot::accounts);
  add(&SpecSnapshot::roots, after.config_key.ns);
  std::vector<std::string> namespaces;
  std::set_symmetric_difference(before.namespaces.begin(), before.namespaces.end(),
                                after.namespaces.begin(), after.namespaces.end(),
                                std::back_inserter(namespaces));
  for (std::string& ns : namespaces) keys.emplace_back(kinds::kNamespace, "", std::move(ns));
  if (!same(before.config, after.config)) keys.push_back(mesh_config_key());
  return keys;
}

std::vector<ObjectKey> new_in(const SpecSnapshot& before, const SpecSnapshot& after) {
  std::vector<ObjectKey> keys;
  if (!same(before.config, after.config)) keys.push_back(mesh_config_key());
  for_each_list([&]<class T>(Table<T> SpecSnapshot::*table, auto) {
    Table<T>::compare(before.*table, after.*table, [&](const auto&, const auto& now) {
      if (now) keys.push_back(key_of(*now));
    });
  });
  return keys;
}

SpecSnapshot mixed(const SpecSnapshot& before, const SpecSnapshot& after,
                   const std::set<ObjectKey>& old) {
  SpecSnapshot out = after;
  if (old.contains(mesh_config_key())) out.config = before.config;
  for_each_list([&]<class T>(Table<T> SpecSnapshot::*table, auto) {
    std::map<typename Table<T>::Key, typename Table<T>::Entry> edits;
    for (const ObjectKey& key : old)
      if (may_hold(out.*table, key))
        edits.emplace(name_in(out.*table, key), (before.*table).find(name_in(out.*table, key)));
    out.*table = (out.*table).edited(std::move(edits));
  });
  return out;
}

}  // namespace osm::inline v1::model
