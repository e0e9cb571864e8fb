#include "spec/object_index.hpp"

#include <algorithm>
#include <boost/json/value.hpp>
#include <utility>

namespace osm::inline v1::spec {
namespace {

bool same_content(const Object& a, const Object& b) {
  return a.document == b.document || *a.document == *b.document;
}

bool same(const Object& a, const Object& b) {
  return a.key == b.key && same_content(a, b) && a.source.path == b.source.path &&
         a.source.line == b.source.line && a.source.fields == b.source.fields;
}

Problem duplicate(const Object& loser, const Object& winner) {
  return {ErrorCode::kDuplicateObject,
          loser.key,
          loser.source.path,
          loser.source.line,
          "",
          "already defined at " + winner.source.path + ':' + std::to_string(winner.source.line) +
              ", which is used (the first path in byte order); remove one of them"};
}

}  // namespace

void ObjectIndex::touch(const ObjectKey& key) { before_.try_emplace(key, get(key)); }

void ObjectIndex::withdraw(const std::string& path, const ObjectFile& file) {
  for (std::size_t i = 0; i < file.objects.size(); ++i) {
    const ObjectKey& key = file.objects[i]->key;
    touch(key);
    Claims& claims = claims_[key];
    claims.erase({path, i});
    if (claims.size() < 2) contested_.erase(key);
    if (claims.empty()) claims_.erase(key);
  }
}

void ObjectIndex::put(const std::string& path, ObjectFile file) {
  ObjectFile& known = files_[path];
  if (!file.readable()) {
    known.broken = std::move(file.broken);
    broken_.insert(path);
    return;
  }
  broken_.erase(path);
  std::map<ObjectKey, std::shared_ptr<const Object>> old;
  for (const auto& object : known.objects) old.try_emplace(object->key, object);
  withdraw(path, known);
  for (std::size_t i = 0; i < file.objects.size(); ++i) {
    auto& object = file.objects[i];
    if (const auto at = old.find(object->key); at != old.end() && same(*at->second, *object))
      object = at->second;
    touch(object->key);
    Claims& claims = claims_[object->key];
    claims.emplace(Place{path, i}, object);
    if (claims.size() > 1) contested_.insert(object->key);
  }
  known = std::move(file);
}

void ObjectIndex::remove(const std::string& path) {
  const auto at = files_.find(path);
  if (at == files_.end()) return;
  withdraw(path, at->second);
  broken_.erase(path);
  files_.erase(at);
}

std::vector<std::shared_ptr<const Object>> ObjectIndex::list(const GroupKind& kind) const {
  std::vector<std::shared_ptr<const Object>> out;
  for (auto at = claims_.lower_bound({kind, "", ""}); at != claims_.end() && at->first.is(kind);
       ++at)
    out.push_back(at->second.begin()->second);
  return out;
}

std::shared_ptr<const Object> ObjectIndex::get(const ObjectKey& key) const {
  const auto at = claims_.find(key);
  return at == claims_.end() ? nullptr : at->second.begin()->second;
}

std::vector<Problem> ObjectIndex::problems() const {
  std::vector<Problem> out;
  for (const auto& [path, file] : files_) {
    out.insert(out.end(), file.broken.begin(), file.broken.end());
    out.insert(out.end(), file.problems.begin(), file.problems.end());
  }
  for (const ObjectKey& key : contested_) {
    const Claims& claims = claims_.at(key);
    const Object& winner = *claims.begin()->second;
    for (auto at = std::next(claims.begin()); at != claims.end(); ++at)
      out.push_back(duplicate(*at->second, winner));
  }
  std::sort(out.begin(), out.end());
  return out;
}

ObjectIndex::Changes ObjectIndex::take_changes() {
  Changes changes;
  for (const auto& [key, before] : std::exchange(before_, {})) {
    const auto now = get(key);
    if (now == before) continue;
    if (now && before && same_content(*now, *before)) {
      changes.moved = true;
    } else {
      changes.keys.push_back(key);
    }
  }
  return changes;
}

}  // namespace osm::inline v1::spec
