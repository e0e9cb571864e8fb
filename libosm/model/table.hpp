// An immutable sorted table of shared values: copying it copies pointers, changing it makes a new
// one.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

namespace osm::model {

// V has `key()`, which orders it. Pointers are never null.
template <class V>
class Table {
 public:
  using Key = std::decay_t<decltype(std::declval<const V&>().key())>;
  using Entry = std::shared_ptr<const V>;

  Table() = default;
  // `entries` in any order, keys unique.
  explicit Table(std::vector<Entry> entries) : entries_(std::move(entries)) {
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a->key() < b->key(); });
  }

  Entry find(const Key& key) const {
    auto at = lower_bound(key);
    return at != entries_.end() && (*at)->key() == key ? *at : nullptr;
  }

  // This table with `value` added or put in place of the one with its key.
  Table with(Entry value) const {
    Table copy = *this;
    auto at = copy.entries_.begin() + (lower_bound(value->key()) - entries_.begin());
    if (at != copy.entries_.end() && (*at)->key() == value->key()) {
      *at = std::move(value);
    } else {
      copy.entries_.insert(at, std::move(value));
    }
    return copy;
  }

  Table without(const Key& key) const {
    Table copy = *this;
    auto at = lower_bound(key);
    if (at != entries_.end() && (*at)->key() == key)
      copy.entries_.erase(copy.entries_.begin() + (at - entries_.begin()));
    return copy;
  }

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

 private:
  auto lower_bound(const Key& key) const {
    return std::lower_bound(entries_.begin(), entries_.end(), key,
                            [](const Entry& a, const Key& k) { return a->key() < k; });
  }

  std::vector<Entry> entries_;
};

}  // namespace osm::model
