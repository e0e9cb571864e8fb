#include "etcd/object_table.hpp"

#include <algorithm>
#include <boost/json/value.hpp>
#include <charconv>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::etcd {
namespace {

// read_objects() says the place in its text, and a problem has it beside it.
Problem problem_of(const Error& error, const std::string& path) {
  Problem problem{error.code, {}, path, 0, "", error.message};
  std::string& cause = problem.cause;
  if (!cause.starts_with(path)) return problem;
  cause.erase(0, path.size());
  if (cause.starts_with(':')) {
    const auto [end, fault] =
        std::from_chars(cause.data() + 1, cause.data() + cause.size(), problem.line);
    if (fault == std::errc{}) cause.erase(0, static_cast<std::size_t>(end - cause.data()));
  }
  if (cause.starts_with(": ")) cause.erase(0, 2);
  return problem;
}

// An object that was removed and written again is another one, whatever it says.
bool same_content(const Object& a, const Object& b) {
  return a.created == b.created && (a.document == b.document || *a.document == *b.document);
}

}  // namespace

ReadObject read_value(const ObjectKeys& keys, const Pair& pair, const spec::Kinds& kinds) {
  const std::string path = "etcd:" + pair.key;
  const auto left_out = [&](std::string cause) {
    return ReadObject{{}, Problem{ErrorCode::kInvalidField, {}, path, 0, "", std::move(cause)}};
  };
  const auto key = keys.object_of(pair.key);
  if (!key) return left_out("is no key of an object: .../<group>/<kind>/<namespace>/<name>");
  const auto objects = spec::read_objects(pair.value, path, kinds);
  if (!objects.ok()) {
    const ErrorCode code = objects.error().code;
    return {{},
            problem_of(objects.error(), path),
            code == ErrorCode::kInvalidSyntax || code == ErrorCode::kTooLarge};
  }
  if (objects->size() != 1)
    return left_out("holds " + std::to_string(objects->size()) +
                    " objects; a key holds one, and `osm apply` puts each into its own");
  if (objects->front()->key != *key)
    return left_out("holds " + objects->front()->key.str() + ", which belongs to another key");
  auto object = std::make_shared<Object>(*objects->front());
  object->resource_version = std::to_string(pair.revision);
  object->created.order = static_cast<std::uint64_t>(pair.created);
  return {std::move(object), {}, false};
}

std::vector<std::shared_ptr<const Object>> ObjectTable::list(const GroupKind& kind) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Object>> out;
  for (auto at = objects_.lower_bound({kind, "", ""}); at != objects_.end() && at->first.is(kind);
       ++at)
    out.push_back(at->second);
  return out;
}

std::shared_ptr<const Object> ObjectTable::get(const ObjectKey& key) const {
  const std::lock_guard lock(mutex_);
  return value_in(objects_, key);
}

std::size_t ObjectTable::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

bool ObjectTable::has_synced() const {
  const std::lock_guard lock(mutex_);
  return synced_;
}

std::vector<Problem> ObjectTable::problems() const {
  const std::lock_guard lock(mutex_);
  std::vector<Problem> out;
  for (const auto& [key, entry] : entries_)
    if (entry.read.problem) out.push_back(*entry.read.problem);
  return out;
}

std::int64_t ObjectTable::revision_of(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto* entry = find_in(entries_, key);
  return entry ? entry->revision : 0;
}

// Only the writer changes entries_, so that it reads them without the lock: no reader waits until a
// value is parsed.
void ObjectTable::replace(const std::vector<Pair>& pairs) {
  std::set<std::string> gone;
  for (const auto& [key, entry] : entries_) gone.insert(gone.end(), key);
  std::vector<std::pair<const Pair*, ReadObject>> fresh;
  for (const Pair& pair : pairs) {
    gone.erase(pair.key);
    // A store that was restored has lower revisions, so that only an equal one is the same.
    const auto* entry = find_in(entries_, pair.key);
    if (!entry || entry->revision != pair.revision)
      fresh.emplace_back(&pair, read_value(keys_, pair, kinds_));
  }
  const std::lock_guard lock(mutex_);
  for (auto& [pair, read] : fresh) put_locked(*pair, std::move(read));
  for (const std::string& key : gone) remove_locked(key);
  listed_ = true;
  look_at_sync();
}

void ObjectTable::put(const Pair& pair) {
  const auto* entry = find_in(entries_, pair.key);
  if (entry && entry->revision >= pair.revision) return;
  ReadObject read = read_value(keys_, pair, kinds_);
  const std::lock_guard lock(mutex_);
  put_locked(pair, std::move(read));
  look_at_sync();
}

void ObjectTable::remove(const Pair& pair) {
  const std::lock_guard lock(mutex_);
  const auto* entry = find_in(entries_, pair.key);
  if (!entry || entry->revision >= pair.revision) return;
  remove_locked(pair.key);
  look_at_sync();
}

void ObjectTable::put_locked(const Pair& pair, ReadObject read) {
  Entry& entry = entries_[pair.key];
  entry.revision = pair.revision;
  news_ = news_ || entry.read.problem != read.problem;
  entry.read.problem = std::move(read.problem);
  if (read.broken) {
    broken_.insert(pair.key);
    return;  // the last good content stays
  }
  broken_.erase(pair.key);
  const std::shared_ptr<const Object> known = std::move(entry.read.object);
  const bool same = known && read.object && same_content(*known, *read.object);
  entry.read.object = same ? known : std::move(read.object);
  if (same || (!known && !entry.read.object)) return;
  const ObjectKey key = entry.read.object ? entry.read.object->key : known->key;
  touch(key);
  if (entry.read.object)
    objects_[key] = entry.read.object;
  else
    objects_.erase(key);
}

void ObjectTable::remove_locked(const std::string& key) {
  const auto at = entries_.find(key);
  news_ = news_ || at->second.read.problem;
  if (const auto object = at->second.read.object) {
    touch(object->key);
    objects_.erase(object->key);
  }
  broken_.erase(key);
  entries_.erase(at);
}

void ObjectTable::touch(const ObjectKey& key) { before_.try_emplace(key, value_in(objects_, key)); }

void ObjectTable::look_at_sync() {
  if (synced_ || !listed_ || !broken_.empty()) return;
  synced_ = news_ = true;
}

ObjectTable::Changes ObjectTable::take_changes() {
  const std::lock_guard lock(mutex_);
  Changes changes;
  changes.news = std::exchange(news_, false);
  for (const auto& [key, before] : std::exchange(before_, {})) {
    if (value_in(objects_, key) != before) changes.keys.push_back(key);
  }
  return changes;
}

}  // namespace osm::inline v1::etcd
