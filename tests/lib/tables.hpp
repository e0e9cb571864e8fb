// A `model::Table` with one entry added, replaced or removed. The catalog changes many entries at
// once, with TableEdit.
#pragma once

#include <utility>
#include <vector>

#include "model/table.hpp"

namespace osm::model {

// `table` without the entry of that key.
template <class V>
Table<V> without(const Table<V>& table, const typename Table<V>::Key& key) {
  std::vector<typename Table<V>::Entry> entries(table.begin(), table.end());
  std::erase_if(entries, [&](const auto& entry) { return entry->key() == key; });
  return Table<V>(std::move(entries));
}

// `table` with `value` added, or in place of the entry with its key.
template <class V>
Table<V> with(const Table<V>& table, std::shared_ptr<const V> value) {
  const Table<V> others = without(table, value->key());
  std::vector<typename Table<V>::Entry> entries(others.begin(), others.end());
  entries.push_back(std::move(value));
  return Table<V>(std::move(entries));
}

}  // namespace osm::model
