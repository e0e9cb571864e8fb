#include "kubernetes/client/object_table.hpp"

#include <algorithm>
#include <boost/json/value.hpp>

namespace osm::inline v1::kubernetes {

std::vector<std::shared_ptr<const Object>> ObjectTable::list() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Object>> out;
  out.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) out.push_back(entry.object);
  return out;
}

std::vector<std::shared_ptr<const Object>> ObjectTable::list_in(const std::string& ns) const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Object>> out;
  for (auto at = entries_.lower_bound({ns, ""}); at != entries_.end() && at->first.first == ns;
       ++at)
    out.push_back(at->second.object);
  return out;
}

std::vector<std::shared_ptr<const Object>> ObjectTable::list_labelled(
    const std::string& value) const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Object>> out;
  const auto names = by_label_.find(value);
  if (names == by_label_.end()) return out;
  for (const Name& name : names->second) out.push_back(entries_.at(name).object);
  return out;
}

std::shared_ptr<const Object> ObjectTable::get(const std::string& ns,
                                               const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find({ns, name});
  return at == entries_.end() ? nullptr : at->second.object;
}

std::shared_ptr<const Object> ObjectTable::get_version(const std::string& ns,
                                                       const std::string& name,
                                                       const std::string& version) const {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find({ns, name});
  return at == entries_.end() || at->second.version != version ? nullptr : at->second.object;
}

std::string ObjectTable::version_of(const std::string& ns, const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find({ns, name});
  return at == entries_.end() ? std::string() : at->second.version;
}

std::size_t ObjectTable::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

void ObjectTable::index(const Name& name, const Object& object) {
  const auto label = object.labels.find(index_label_);
  if (label != object.labels.end()) by_label_[label->second].insert(name);
}

void ObjectTable::unindex(const Name& name, const Object& object) {
  const auto label = object.labels.find(index_label_);
  if (label == object.labels.end()) return;
  const auto names = by_label_.find(label->second);
  names->second.erase(name);
  if (names->second.empty()) by_label_.erase(names);
}

bool ObjectTable::put_one(VersionedObject entry) {
  Name name{entry.object->key.ns, entry.object->key.name};
  const auto [at, added] = entries_.try_emplace(std::move(name));
  VersionedObject& known = at->second;
  if (!added && *known.object->document == *entry.object->document) {
    known.version = std::move(entry.version);
    return false;
  }
  if (!added) unindex(at->first, *known.object);
  known = std::move(entry);
  index(at->first, *known.object);
  return true;
}

bool ObjectTable::put(VersionedObject entry) {
  std::lock_guard lock(mutex_);
  return put_one(std::move(entry));
}

bool ObjectTable::remove(const std::string& ns, const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find({ns, name});
  if (at == entries_.end()) return false;
  unindex(at->first, *at->second.object);
  entries_.erase(at);
  return true;
}

std::vector<ObjectKey> ObjectTable::replace(std::vector<VersionedObject> entries) {
  std::vector<ObjectKey> changed;
  std::set<Name> present;
  for (const VersionedObject& entry : entries)
    present.emplace(entry.object->key.ns, entry.object->key.name);
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (present.contains(at->first)) {
      ++at;
      continue;
    }
    changed.push_back(at->second.object->key);
    unindex(at->first, *at->second.object);
    at = entries_.erase(at);
  }
  for (VersionedObject& entry : entries) {
    const auto object = entry.object;
    if (put_one(std::move(entry))) changed.push_back(object->key);
  }
  std::sort(changed.begin(), changed.end());
  return changed;
}

}  // namespace osm::inline v1::kubernetes
