#include "model/spec_objects.hpp"

#include <algorithm>

namespace osm::inline v1::model {
namespace {

template <class T>
ObjectKey key_of(const char* kind, const std::shared_ptr<const T>& object) {
  return {kind, object->name.ns, object->name.name};
}

template <class T, class Name>
std::shared_ptr<const T> find(const SharedList<T>& list, const Name& name) {
  const auto at = std::lower_bound(
      list.begin(), list.end(), name,
      [](const auto& object, const Name& sought) { return object->name < sought; });
  return at != list.end() && (*at)->name == name ? *at : nullptr;
}

template <class T>
SharedList<T> mixed(const char* kind, const SharedList<T>& before, const SharedList<T>& after,
                    const std::set<ObjectKey>& old) {
  SharedList<T> out;
  for (const auto& object : after)
    if (!old.contains(key_of(kind, object))) out.push_back(object);
  for (const auto& object : before)
    if (old.contains(key_of(kind, object))) out.push_back(object);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a->name < b->name; });
  return out;
}

}  // namespace

std::vector<ObjectKey> new_in(const SpecObjects& before, const SpecObjects& after) {
  std::vector<ObjectKey> keys;
  if (!(before.config == after.config)) keys.push_back({kMeshConfigKind, {}, {}});
  for_each_kind([&](const char* kind, auto list) {
    for (const auto& object : after.*list) {
      const auto held = find(before.*list, object->name);
      if (held != object && !(held && *held == *object)) keys.push_back(key_of(kind, object));
    }
  });
  return keys;
}

SpecObjects mixed(const SpecObjects& before, const SpecObjects& after,
                  const std::set<ObjectKey>& old) {
  SpecObjects out{after.config, after.namespaces, {}, {}, {}, {}, {}};
  if (old.contains({kMeshConfigKind, {}, {}})) out.config = before.config;
  for_each_kind([&](const char* kind, auto list) {
    out.*list = mixed(kind, before.*list, after.*list, old);
  });
  return out;
}

SpecObjects only(const SpecObjects& objects, const ObjectKey& key) {
  SpecObjects out{objects.config, objects.namespaces, {}, {}, {}, {}, {}};
  for_each_kind([&](const char* kind, auto list) {
    for (const auto& object : objects.*list)
      if (key_of(kind, object) == key) (out.*list).push_back(object);
  });
  return out;
}

}  // namespace osm::inline v1::model
