// The known keys of objects in etcd with their revisions: the objects, the values that are none,
// and the changes since the last take_changes().
//
// Readers may be on any thread; one writer at a time. Objects are shared and immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "etcd/object_keys.hpp"
#include "etcd/watch_answers.hpp"
#include "osm/object.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::etcd {

// The object that a key's value has.
struct ReadObject {
  std::shared_ptr<const Object> object{};
  std::optional<Problem> problem{};
  bool broken = false;  // the value cannot be parsed
};

// Failure: none; see `problem`.
ReadObject read_value(const ObjectKeys& keys, const Pair& pair, const spec::Kinds& kinds);

class ObjectTable {
 public:
  struct Changes {
    std::vector<ObjectKey> keys;  // ordered
    bool news = false;            // problems, or has_synced()
  };

  ObjectTable(ObjectKeys keys, spec::Kinds kinds)
      : keys_(std::move(keys)), kinds_(std::move(kinds)) {}

  const ObjectKeys& keys() const { return keys_; }

  // Ordered by namespace and name / null: none.
  std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const;
  std::shared_ptr<const Object> get(const ObjectKey& key) const;
  std::size_t size() const;  // of keys
  // True once a replace() has happened and no value has been broken since; it stays true.
  bool has_synced() const;
  std::vector<Problem> problems() const;
  // The key's mod_revision; 0: it is not there.
  std::int64_t revision_of(const std::string& key) const;

  // The writer's. An event that is older than what is known changes nothing.
  void replace(const std::vector<Pair>& pairs);
  void put(const Pair& pair);
  void remove(const Pair& pair);
  Changes take_changes();

 private:
  struct Entry {
    std::int64_t revision = 0;
    ReadObject read;
  };

  void put_locked(const Pair& pair, ReadObject read);
  void remove_locked(const std::string& key);
  void look_at_sync();
  void touch(const ObjectKey& key);

  const ObjectKeys keys_;
  const spec::Kinds kinds_;
  mutable std::mutex mutex_;  // guards the rest
  std::map<std::string, Entry> entries_;
  std::map<ObjectKey, std::shared_ptr<const Object>> objects_;
  std::set<std::string> broken_;
  bool listed_ = false;
  bool synced_ = false;
  bool news_ = false;
  std::map<ObjectKey, std::shared_ptr<const Object>> before_;  // of touched keys
};

}  // namespace osm::inline v1::etcd
