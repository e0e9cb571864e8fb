#include "model/spec_tables.hpp"

#include <iterator>
#include <map>
#include <utility>

namespace osm::inline v1::model {

std::map<ObjectKey, bool> differences(const SpecSnapshot& before, const SpecSnapshot& after) {
  std::map<ObjectKey, bool> out;
  for_each_table([&]<class T>(Table<T> SpecSnapshot::*table) {
    Table<T>::compare(before.*table, after.*table, [&](const auto& old, const auto& now) {
      const T& object = now ? *now : *old;
      if constexpr (std::is_same_v<T, MeshRootCertificate>)
        out[key_of(object, after.config_key.ns)] = now != nullptr;
      else
        out[key_of(object)] = now != nullptr;
    });
  });
  std::vector<std::string> turned;
  std::set_symmetric_difference(before.namespaces.begin(), before.namespaces.end(),
                                after.namespaces.begin(), after.namespaces.end(),
                                std::back_inserter(turned));
  for (const std::string& ns : turned)
    out[{kinds::kNamespace, "", ns}] =
        std::binary_search(after.namespaces.begin(), after.namespaces.end(), ns);
  if (!same(before.config, after.config)) out[after.config_key] = true;
  return out;
}

std::vector<ObjectKey> differing(const SpecSnapshot& before, const SpecSnapshot& after) {
  std::vector<ObjectKey> keys;
  for (const auto& [key, present] : differences(before, after)) keys.push_back(key);
  return keys;
}

std::vector<ObjectKey> new_in(const SpecSnapshot& before, const SpecSnapshot& after) {
  std::vector<ObjectKey> keys;
  if (!same(before.config, after.config)) keys.push_back(mesh_config_key());
  for_each_list([&]<class T>(Table<T> SpecSnapshot::*table) {
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
  for_each_list([&]<class T>(Table<T> SpecSnapshot::*table) {
    std::map<typename Table<T>::Key, typename Table<T>::Entry> edits;
    for (const ObjectKey& key : old)
      if (may_hold(out.*table, key))
        edits.emplace(name_in(out.*table, key), (before.*table).find(name_in(out.*table, key)));
    out.*table = (out.*table).edited(std::move(edits));
  });
  return out;
}

}  // namespace osm::inline v1::model
