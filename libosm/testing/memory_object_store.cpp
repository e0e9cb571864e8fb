#include "osm/testing/memory_object_store.hpp"

#include <boost/json/value.hpp>
#include <map>
#include <utility>

#include "base/maps.hpp"
#include "osm/spec/kinds.hpp"
#include "testing/published.hpp"

namespace osm::inline v1::testing {
namespace {

bool same(const Object& a, const Object& b) {
  return a.resource_version == b.resource_version && a.created == b.created &&
         a.labels == b.labels && *a.document == *b.document;
}

}  // namespace

struct MemoryObjectStore::State {
  struct Content {
    std::map<ObjectKey, std::shared_ptr<const Object>> objects;
    bool synced = true;
    std::vector<Problem> problems;
  };
  spec::Kinds kinds;
  Published<Content, ObjectKey> now;
};

MemoryObjectStore::MemoryObjectStore(spec::Kinds kinds) : state_(std::make_unique<State>()) {
  state_->kinds = std::move(kinds);
}
MemoryObjectStore::~MemoryObjectStore() = default;

void MemoryObjectStore::put_all(std::vector<std::shared_ptr<const Object>> objects) {
  state_->now.change([&](State::Content& content) {
    std::vector<ObjectKey> changed;
    for (auto& object : objects) {
      auto& slot = content.objects[object->key];
      if (slot && same(*slot, *object)) continue;
      changed.push_back(object->key);
      slot = std::move(object);
    }
    return changed;
  });
}

Status MemoryObjectStore::put_yaml(std::string_view text, std::string_view path) {
  OSM_TRY(auto objects, spec::read_objects(text, std::string(path), state_->kinds));
  put_all(std::move(objects));
  return {};
}

void MemoryObjectStore::put(Object object) {
  if (!object.document) object.document = std::make_shared<const boost::json::value>();
  put_all({std::make_shared<const Object>(std::move(object))});
}

void MemoryObjectStore::remove(const ObjectKey& key) {
  state_->now.change(key, [&](State::Content& content) { return content.objects.erase(key) > 0; });
}

void MemoryObjectStore::set_synced(bool synced) {
  state_->now.set(&State::Content::synced, synced);
}

void MemoryObjectStore::set_problems(std::vector<Problem> problems) {
  state_->now.set(&State::Content::problems, std::move(problems));
}

std::vector<std::shared_ptr<const Object>> MemoryObjectStore::list(const GroupKind& kind) const {
  return state_->now.read([&](const State::Content& content) {
    std::vector<std::shared_ptr<const Object>> out;
    for (auto at = content.objects.lower_bound({kind, "", ""});
         at != content.objects.end() && at->first.is(kind); ++at)
      out.push_back(at->second);
    return out;
  });
}

std::shared_ptr<const Object> MemoryObjectStore::get(const ObjectKey& key) const {
  return state_->now.read([&](const State::Content& content) {
    const auto* found = find_in(content.objects, key);
    return found ? *found : nullptr;
  });
}

bool MemoryObjectStore::has_synced() const { return state_->now.read(&State::Content::synced); }

std::vector<Problem> MemoryObjectStore::list_problems() const {
  return state_->now.read(&State::Content::problems);
}

Subscription MemoryObjectStore::subscribe(
    std::function<void(const std::vector<ObjectKey>& changed)> on_change) {
  return state_->now.subscribe(std::move(on_change));
}

}  // namespace osm::inline v1::testing
