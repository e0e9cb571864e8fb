// An immutable table of shared values, ordered by key. A copy costs one pointer; a change makes a
// new table, which shares the other values.
//
// Thread: any; tables that share values may be read and changed at the same time.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "osm/ids.hpp"

namespace osm::inline v1 {

template <class T>
using SharedList = std::vector<std::shared_ptr<const T>>;

// The key of a value: the result of its key(), its member `key`, or its name.
template <class T>
decltype(auto) key_in_table(const T& value) {
  if constexpr (requires { value.key(); }) {
    return value.key();
  } else if constexpr (requires { value.key; }) {
    return (value.key);
  } else {
    return (value.name);
  }
}
template <class Tag>  // a name is its own key
const NamespacedName<Tag>& key_in_table(const NamespacedName<Tag>& name) {
  return name;
}

// Pointers to values are never null.
template <class T>
class Table {
 public:
  using Key = std::decay_t<decltype(key_in_table(std::declval<const T&>()))>;
  using Entry = std::shared_ptr<const T>;

  Table() = default;
  // A table of `entries` that are ordered already, with unique keys; else find() misses some.
  static Table sorted(SharedList<T> entries) {
    Table out;
    out.entries_ = std::make_shared<const SharedList<T>>(std::move(entries));
    return out;
  }
  // A table of `entries` in any order, with unique keys.
  explicit Table(SharedList<T> entries) {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return key_in_table(*a) < key_in_table(*b); });
    *this = sorted(std::move(entries));
  }

  // The value; null if there is none.
  Entry find(const Key& key) const {
    const auto at = place_of(key, begin());
    return at != end() && key_in_table(**at) == key ? *at : nullptr;
  }

  auto begin() const { return list().begin(); }       // of the values, ordered by key
  auto end() const { return list().end(); }           // behind the last value
  std::size_t size() const { return list().size(); }  // number of values
  bool empty() const { return list().empty(); }       // true without a value
  // All values. Lifetime, also of begin(): while a table shares them.
  const SharedList<T>& list() const {
    static const SharedList<T> kNone;
    return entries_ ? *entries_ : kNone;
  }

  // This table with the value, in place of the one with its key / without the value of that key.
  // Copies all pointers: several changes are one edited().
  Table with(Entry value) const {
    const Key key = key_in_table(*value);
    return edited({{key, std::move(value)}});
  }
  Table without(const Key& key) const { return edited({{key, nullptr}}); }
  // This table after several of these changes: new values by key; null: removed. Without a
  // difference, this table. Each key is its value's.
  Table edited(std::map<Key, Entry> edits) const {
    std::erase_if(edits, [&](const auto& edit) { return find(edit.first) == edit.second; });
    if (edits.empty()) return *this;
    SharedList<T> entries;
    entries.reserve(size() + edits.size());
    auto at = begin();  // both are ordered; values between two edits are copied unchanged
    for (auto& [key, entry] : edits) {
      const auto next = place_of(key, at);
      entries.insert(entries.end(), at, next);
      at = next != end() && key_in_table(**next) == key ? next + 1 : next;
      if (entry) entries.push_back(std::move(entry));
    }
    entries.insert(entries.end(), at, end());
    return sorted(std::move(entries));
  }

  // Calls visit(old, now) for each key whose values differ, in order; null: absent. Values are
  // compared by pointer first, so that unchanged ones cost little.
  template <class Visit>
  static void compare(const Table& before, const Table& after, const Visit& visit) {
    if (before.entries_ == after.entries_) return;
    auto a = before.begin();
    auto b = after.begin();
    while (a != before.end() || b != after.end()) {
      if (a != before.end() && b != after.end() && *a == *b) {
        ++a;
        ++b;
        continue;
      }
      const bool only_a = b == after.end() || (a != before.end() && is_less(*a, *b));
      const bool only_b = a == before.end() || (b != after.end() && is_less(*b, *a));
      const Entry old = only_b ? nullptr : *a++;
      const Entry now = only_a ? nullptr : *b++;
      if (!old || !now || !(*old == *now)) visit(old, now);
    }
  }

 private:
  using Place = typename SharedList<T>::const_iterator;

  static bool is_less(const Entry& a, const Entry& b) {
    return key_in_table(*a) < key_in_table(*b);
  }
  Place place_of(const Key& key, Place from) const {
    return std::lower_bound(from, end(), key, [](const Entry& entry, const Key& wanted) {
      return key_in_table(*entry) < wanted;
    });
  }

  std::shared_ptr<const SharedList<T>> entries_;  // null: empty
};

}  // namespace osm::inline v1
