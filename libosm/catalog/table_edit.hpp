// Applies several replacements to a Table at once. Unchanged entries keep their pointers; finish()
// returns the keys of the others.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "osm/values/table.hpp"

namespace osm::inline v1::catalog {

template <class V>
class TableEdit {
 public:
  using Key = typename Table<V>::Key;
  using Entry = typename Table<V>::Entry;

  // `table` is changed by finish() only and outlives the edit.
  explicit TableEdit(Table<V>& table) : table_(table) {}

  void put(V value) {
    const Key key = value.key();
    const Entry old = table_.find(key);
    if (old && *old == value) {
      edits_.erase(key);
      return;
    }
    edits_[key] = std::make_shared<const V>(std::move(value));
  }
  void remove(const Key& key) {
    if (table_.find(key)) edits_[key] = nullptr;
  }
  // Replaces the whole content by `values`.
  void replace_all(std::vector<V> values) {
    std::set<Key> kept;
    for (const V& value : values) kept.insert(value.key());
    for (const Entry& old : table_)
      if (!kept.contains(old->key())) edits_[old->key()] = nullptr;
    for (V& value : values) put(std::move(value));
  }

  // Pending edits: keys and their new entries (null: removed). The table itself changes in finish()
  // only.
  const std::map<Key, Entry>& edits() const { return edits_; }
  const Table<V>& before() const { return table_; }

  // Result: the keys added, changed or removed.
  std::set<Key> finish() {
    std::set<Key> changed;
    for (const auto& [key, entry] : edits_) changed.insert(key);
    table_ = table_.edited(std::exchange(edits_, {}));
    return changed;
  }

 private:
  Table<V>& table_;
  std::map<Key, Entry> edits_;
};

}  // namespace osm::inline v1::catalog
