#include "osm/testing/memory_object_store.hpp"

#include <boost/json/value.hpp>
#include <map>
#include <mutex>
#include <utility>

#include "osm/notifier.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::testing {
namespace {

bool same(const Object& a, const Object& b) {
  return a.resource_version == b.resource_version && a.labels == b.labels &&
         *a.document == *b.document;
}

}  // namespace

struct MemoryObjectStore::State {
  mutable std::mutex mutex;
  std::map<ObjectKey, std::shared_ptr<const Object>> objects;
  spec::Kinds kinds;
  bool synced = true;
  std::vector<Problem> problems;
  Notifier<const std::vector<ObjectKey>&> notifier;
};

MemoryObjectStore::MemoryObjectStore(spec::Kinds kinds) : state_(std::make_unique<State>()) {
  state_->kinds = std::move(kinds);
}
MemoryObjectStore::~MemoryObjectStore() = default;

void MemoryObjectStore::put_all(std::vector<std::shared_ptr<const Object>> objects) {
  std::vector<ObjectKey> changed;
  {
    std::lock_guard lock(state_->mutex);
    for (auto& object : objects) {
      auto& slot = state_->objects[object->key];
      if (slot && same(*slot, *object)) continue;
      changed.push_back(object->key);
      slot = std::move(object);
    }
  }
  if (!changed.empty()) state_->notifier.notify(changed);
}

Status MemoryObjectStore::put_yaml(std::string_view text, std::string_view path) {
  OSM_TRY(auto objects, spec::read_objects(text, std::string(path), state_->kinds));
  put_all(std::move(objects));
  return {};
}

void MemoryObjectStore::put(Object object) {
  if (!object.document) object.document = std::make_shared<const boost::json::value>();
  std::vector<std::shared_ptr<const Object>> objects;
  objects.push_back(std::make_shared<const Object>(std::move(object)));
  put_all(std::move(objects));
}

void MemoryObjectStore::remove(const ObjectKey& key) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->objects.erase(key) == 0) return;
  }
  state_->notifier.notify({key});
}

void MemoryObjectStore::set_synced(bool synced) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->synced == synced) return;
    state_->synced = synced;
  }
  state_->notifier.notify({});
}

void MemoryObjectStore::set_problems(std::vector<Problem> problems) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->problems == problems) return;
    state_->problems = std::move(problems);
  }
  state_->notifier.notify({});
}

std::vector<std::shared_ptr<const Object>> MemoryObjectStore::list(const GroupKind& kind) const {
  std::lock_guard lock(state_->mutex);
  std::vector<std::shared_ptr<const Object>> out;
  for (auto at = state_->objects.lower_bound({kind, "", ""});
       at != state_->objects.end() && at->first.is(kind); ++at)
    out.push_back(at->second);
  return out;
}

std::shared_ptr<const Object> MemoryObjectStore::get(const ObjectKey& key) const {
  std::lock_guard lock(state_->mutex);
  const auto at = state_->objects.find(key);
  return at == state_->objects.end() ? nullptr : at->second;
}

bool MemoryObjectStore::has_synced() const {
  std::lock_guard lock(state_->mutex);
  return state_->synced;
}

std::vector<Problem> MemoryObjectStore::list_problems() const {
  std::lock_guard lock(state_->mutex);
  return state_->problems;
}

Subscription MemoryObjectStore::subscribe(
    std::function<void(const std::vector<ObjectKey>& changed)> on_change) {
  return state_->notifier.subscribe(std::move(on_change));
}

}  // namespace osm::inline v1::testing
