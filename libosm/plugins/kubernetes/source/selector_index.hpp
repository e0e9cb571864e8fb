// Index of selectors that finds all matches of a set of labels without trying each. A selector
// matches if it is not empty and all its labels are present.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

namespace osm::inline v1::kubernetes {

using Labels = std::map<std::string, std::string>;

class SelectorIndex {
 public:
  // Adds a selector, or replaces the one of that name. An empty selector matches nothing.
  void set(const std::string& name, Labels selector);
  void erase(const std::string& name);

  std::set<std::string> matching(const Labels& labels) const;
  bool matches_any(const Labels& labels) const { return !matching(labels).empty(); }

 private:
  std::map<std::string, Labels> selectors_;
  // Names by the first label of each selector.
  std::map<Labels::value_type, std::set<std::string>> names_;
};

}  // namespace osm::inline v1::kubernetes
