// Index of selectors that finds all matches of a set of labels without trying each.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "osm/detail/api.hpp"

namespace osm::inline v1::endpoint {

using Labels = std::map<std::string, std::string>;

// True if the selector is not empty and all its labels are present.
inline bool selects(const Labels& selector, const Labels& labels) {
  return !selector.empty() &&
         std::includes(labels.begin(), labels.end(), selector.begin(), selector.end());
}

class OSM_API SelectorIndex {
 public:
  // Adds a selector, or replaces the one of that name. An empty selector selects nothing.
  void set(const std::string& name, const Labels& selector);

  // The selector of that name; empty: none.
  Labels get(const std::string& name) const;
  bool empty() const { return selectors_.empty(); }
  // Names of the selectors that select these labels.
  std::set<std::string> matching(const Labels& labels) const;

 private:
  std::map<std::string, Labels> selectors_;
  // Names by the first label of each selector.
  std::map<Labels::value_type, std::set<std::string>> names_;
};

// The selectors of Services, and their changes.
class OSM_API ServiceSelectors {
 public:
  // An empty selector selects nothing.
  void set(const std::string& service, const Labels& selector);
  std::set<std::string> matching(const Labels& labels) const { return now_.matching(labels); }
  // Former and present selectors of the Services that changed since the last call.
  SelectorIndex take_changed();

 private:
  SelectorIndex now_;
  SelectorIndex changed_;
  std::size_t changes_ = 0;
};

}  // namespace osm::inline v1::endpoint
