#include "kubernetes/client/object_table.hpp"

#include <algorithm>
#include <boost/json/value.hpp>

#include "base/maps.hpp"

namespace osm::inline v1::kubernetes {
namespace {

bool is_same(const VersionedObject& known, const VersionedObject& entry) {
  return known.object == entry.object || *known.object->document == *entry.object->document;
}

}  // namespace

std::vector<std::shared_ptr<const Object>> ObjectTable::list() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Object>> out;
  out.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) out.push_back(entry.object);
  return out;
}

std::shared_ptr<const Object> ObjectTable::get(const std::string& ns,
                                               const std::string& name) const {
  return find(ns, name).object;
}

VersionedObject ObjectTable::find(const std::string& ns, const std::string& name) const {
  std::lock_guard lock(mutex_);
  return value_in(entries_, Name(ns, name));
}

std::size_t ObjectTable::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

bool ObjectTable::put(VersionedObject entry) {
  std::lock_guard lock(mutex_);
  VersionedObject& known = entries_[{entry.object->key.ns, entry.object->key.name}];
  const bool same = known.object && is_same(known, entry);
  if (same) entry.object = known.object;  // readers keep one copy
  known = std::move(entry);
  return !same;
}

bool ObjectTable::remove(const std::string& ns, const std::string& name) {
  std::lock_guard lock(mutex_);
  return entries_.erase({ns, name}) > 0;
}

std::vector<ObjectKey> ObjectTable::replace(std::vector<VersionedObject> entries) {
  std::lock_guard lock(mutex_);
  auto before = std::exchange(entries_, {});
  std::vector<ObjectKey> changed;
  for (VersionedObject& entry : entries) {
    const ObjectKey key = entry.object->key;
    const auto known = before.extract(Name(key.ns, key.name));
    if (known && is_same(known.mapped(), entry)) {
      entry.object = known.mapped().object;
    } else {
      changed.push_back(key);
    }
    entries_.insert_or_assign({key.ns, key.name}, std::move(entry));
  }
  for (const auto& [name, gone] : before) changed.push_back(gone.object->key);
  std::sort(changed.begin(), changed.end());
  return changed;
}

}  // namespace osm::inline v1::kubernetes
