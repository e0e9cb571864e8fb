#include "model/spec_objects.hpp"

namespace osm::inline v1::model {

std::vector<ObjectKey> differing(const SpecObjects& before, const SpecObjects& after) {
  std::vector<ObjectKey> keys;
  if (!(before.config == after.config)) keys.push_back(mesh_config_key());
  for_each_list([&](auto list, auto) { add_differing(before.*list, after.*list, keys); });
  return keys;
}

std::vector<ObjectKey> new_in(const SpecObjects& before, const SpecObjects& after) {
  std::vector<ObjectKey> keys = differing(before, after);
  std::erase_if(keys, [&](const ObjectKey& key) {
    bool held = key == mesh_config_key();
    for_each_list([&](auto list, auto) { held = held || find(after.*list, key); });
    return !held;
  });
  return keys;
}

SpecObjects mixed(const SpecObjects& before, const SpecObjects& after,
                  const std::set<ObjectKey>& old) {
  SpecObjects out = after;
  if (old.contains(mesh_config_key())) out.config = before.config;
  for_each_list([&](auto list, auto) {
    auto& mix = out.*list;
    std::erase_if(mix, [&](const auto& object) { return old.contains(key_of(*object)); });
    for (const ObjectKey& key : old)
      if (auto object = find(before.*list, key)) mix.insert(place_of(mix, key), std::move(object));
  });
  return out;
}

}  // namespace osm::inline v1::model
