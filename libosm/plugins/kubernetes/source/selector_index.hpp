// Which of many selectors match a set of labels, without trying each. A selector matches when it is
// not empty and every label of it is there.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

namespace osm::inline v1::kubernetes {

using Labels = std::map<std::string, std::string>;

class SelectorIndex {
 public:
  // Adds it, or replaces the one of that name; an empty one matches nothing.
  void set(const std::string& name, Labels selector);
  void erase(const std::string& name);

  std::set<std::string> matching(const Labels& labels) const;
  bool matches_any(const Labels& labels) const { return !matching(labels).empty(); }

 private:
  std::map<std::string, Labels> selectors_;
  // By the first label of each.
  std::map<Labels::value_type, std::set<std::string>> names_;
};

}  // namespace osm::inline v1::kubernetes
