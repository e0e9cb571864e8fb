// Applies several replacements to a Table at once. Unchanged entries keep their pointers; finish()
// returns the keys of the others.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "model/table.hpp"

namespace osm::inline v1::catalog {

template <class V>
class TableEdit {
 public:
  using Key = typename model::Table<V>::Key;
  using Entry = typename model::Table<V>::Entry;

  // `table` is changed by finish() only and outlives the edit.
  explicit TableEdit(model::Table<V>& table) : table_(table) {}

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
  const model::Table<V>& before() const { return table_; }

  // Result: the keys added, changed or removed.
  std::set<Key> finish() {
    std::set<Key> changed;
    if (edits_.empty()) return changed;
    std::vector<Entry> entries;
    entries.reserve(table_.size() + edits_.size());
    auto at = table_.begin();  // both are ordered; entries between two edits are copied unchanged
    for (auto& [key, entry] : edits_) {
      const auto next = std::lower_bound(
          at, table_.end(), key, [](const Entry& old, const Key& k) { return old->key() < k; });
      entries.insert(entries.end(), at, next);
      at = next != table_.end() && (*next)->key() == key ? next + 1 : next;
      changed.insert(key);
      if (entry) entries.push_back(std::move(entry));
    }
    entries.insert(entries.end(), at, table_.end());
    table_ = model::Table<V>::sorted(std::move(entries));
    edits_.clear();
    return changed;
  }

 private:
  model::Table<V>& table_;
  std::map<Key, Entry> edits_;
};

}  // namespace osm::inline v1::catalog
