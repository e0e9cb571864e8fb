#include "c/memory_store.hpp"

#include <boost/json/value.hpp>
#include <utility>

#include "base/json.hpp"

namespace osm::inline v1::c {
namespace {

namespace json = boost::json;

// The object as it is stored: the version stands beside the document, not in it.
std::shared_ptr<const Object> stored(const Object& object, std::string version, Created created) {
  auto made = std::make_shared<Object>(object);
  made->document = std::make_shared<const json::value>(with_version(*object.document, ""));
  made->resource_version = std::move(version);
  made->created = std::move(created);
  made->source = {};  // it has no file
  return made;
}

}  // namespace

std::vector<std::shared_ptr<const Object>> MemoryStore::list(const GroupKind& kind) const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Object>> out;
  for (auto at = objects_.lower_bound({kind, "", ""}); at != objects_.end() && at->first.is(kind);
       ++at)
    out.push_back(at->second);
  return out;
}

std::shared_ptr<const Object> MemoryStore::get(const ObjectKey& key) const {
  std::lock_guard lock(mutex_);
  const auto at = objects_.find(key);
  return at == objects_.end() ? nullptr : at->second;
}

Subscription MemoryStore::subscribe(
    std::function<void(const std::vector<ObjectKey>& changed)> on_change) {
  return changed_.subscribe(std::move(on_change));
}

Result<spec::StoredObject> MemoryStore::read(const ObjectKey& key) {
  auto object = get(key);
  std::string version = object ? object->resource_version : std::string();
  return spec::StoredObject{std::move(version), std::move(object)};
}

Result<std::string> MemoryStore::write(const Object& object, const std::string& expected) {
  std::lock_guard one_at_a_time(writing_);
  std::string version = std::to_string(++versions_);
  const auto present = get(object.key);
  Created created = present ? present->created : Created{versions_, {}};
  OSM_TRY(replace(object.key, expected, stored(object, version, std::move(created))));
  return version;
}

Status MemoryStore::remove(const ObjectKey& key, const std::string& expected) {
  std::lock_guard one_at_a_time(writing_);
  return replace(key, expected, nullptr);
}

Status MemoryStore::replace(const ObjectKey& key, const std::string& expected,
                            std::shared_ptr<const Object> object) {
  {
    std::lock_guard lock(mutex_);
    const auto at = objects_.find(key);
    if ((at == objects_.end() ? std::string() : at->second->resource_version) != expected)
      return Error{ErrorCode::kConflict,
                   key.str() + ": another call changed it meanwhile; apply it again"};
    if (object) {
      objects_[key] = std::move(object);
    } else if (at != objects_.end()) {
      objects_.erase(at);
    }
  }
  changed_.notify({key});  // without the lock: subscribers read back
  return {};
}

}  // namespace osm::inline v1::c
