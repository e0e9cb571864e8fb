// An immutable sorted table of shared values. A copy copies one pointer; a change makes a new
// table.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace osm::inline v1::model {

// V has `key()`, which orders it. Pointers are never null.
template <class V>
class Table {
 public:
  using Key = std::decay_t<decltype(std::declval<const V&>().key())>;
  using Entry = std::shared_ptr<const V>;

  Table() = default;
  // A table of `entries` that are ordered already, with unique keys.
  static Table sorted(std::vector<Entry> entries) {
    Table out;
    out.adopt(std::move(entries));
    return out;
  }
  // A table of `entries` in any order, with unique keys.
  explicit Table(std::vector<Entry> entries) {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a->key() < b->key(); });
    adopt(std::move(entries));
  }

  Entry find(const Key& key) const {
    const auto at = std::lower_bound(begin(), end(), key,
                                     [](const Entry& a, const Key& k) { return a->key() < k; });
    return at != end() && (*at)->key() == key ? *at : nullptr;
  }

  auto begin() const { return entries().begin(); }
  auto end() const { return entries().end(); }
  std::size_t size() const { return entries().size(); }
  bool empty() const { return entries().empty(); }

 private:
  void adopt(std::vector<Entry> entries) {
    entries_ = std::make_shared<const std::vector<Entry>>(std::move(entries));
  }
  const std::vector<Entry>& entries() const {
    static const std::vector<Entry> kNone;
    return entries_ ? *entries_ : kNone;
  }
  std::shared_ptr<const std::vector<Entry>> entries_;  // null: empty
};

}  // namespace osm::inline v1::model
