// Index of selectors that finds all matches of a set of labels without trying each.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::endpoint {

using Labels = std::map<std::string, std::string>;

// True if the selector is not empty and all its labels are present.
inline bool selects(const Labels& selector, const Labels& labels) {
  return !selector.empty() &&
         std::includes(labels.begin(), labels.end(), selector.begin(), selector.end());
}

class SelectorIndex {
 public:
  // Adds a selector, or replaces the one of that name. An empty selector selects nothing.
  void set(const std::string& name, const Labels& selector) {
    if (const auto at = selectors_.find(name); at != selectors_.end()) {
      remove_member(names_, *at->second.begin(), name);
      selectors_.erase(at);
    }
    if (selector.empty()) return;
    names_[*selector.begin()].insert(name);
    selectors_.emplace(name, selector);
  }

  // The selector of that name; empty: none.
  Labels get(const std::string& name) const {
    const Labels* selector = find_in(selectors_, name);
    return selector ? *selector : Labels();
  }

  bool empty() const { return selectors_.empty(); }
  // Names of the selectors that select these labels.
  std::set<std::string> matching(const Labels& labels) const {
    std::set<std::string> out;
    for (const Labels::value_type& label : labels)
      if (const auto* names = find_in(names_, label))
        for (const std::string& name : *names)
          if (selects(selectors_.at(name), labels)) out.insert(name);
    return out;
  }

 private:
  std::map<std::string, Labels> selectors_;
  // Names by the first label of each selector.
  std::map<Labels::value_type, std::set<std::string>> names_;
};

// The selectors of Services, and their changes.
class ServiceSelectors {
 public:
  // An empty selector selects nothing.
  void set(const std::string& service, const Labels& selector) {
    const Labels former = now_.get(service);
    if (former == selector) return;
    for (const Labels* one : {&former, &selector}) changed_.set(std::to_string(changes_++), *one);
    now_.set(service, selector);
  }

  std::set<std::string> matching(const Labels& labels) const { return now_.matching(labels); }
  // Former and present selectors of the Services that changed since the last call.
  SelectorIndex take_changed() { return std::exchange(changed_, {}); }

 private:
  SelectorIndex now_;
  SelectorIndex changed_;
  std::size_t changes_ = 0;
};

}  // namespace osm::inline v1::endpoint
