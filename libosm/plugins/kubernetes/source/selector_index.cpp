#include "kubernetes/source/selector_index.hpp"

#include <algorithm>

namespace osm::inline v1::kubernetes {

void SelectorIndex::set(const std::string& name, Labels selector) {
  erase(name);
  if (selector.empty()) return;
  names_[*selector.begin()].insert(name);
  selectors_.emplace(name, std::move(selector));
}

void SelectorIndex::erase(const std::string& name) {
  const auto at = selectors_.find(name);
  if (at == selectors_.end()) return;
  const auto names = names_.find(*at->second.begin());
  names->second.erase(name);
  if (names->second.empty()) names_.erase(names);
  selectors_.erase(at);
}

std::set<std::string> SelectorIndex::matching(const Labels& labels) const {
  std::set<std::string> out;
  for (const Labels::value_type& label : labels) {
    const auto names = names_.find(label);
    if (names == names_.end()) continue;
    for (const std::string& name : names->second) {
      const Labels& selector = selectors_.at(name);
      if (std::includes(labels.begin(), labels.end(), selector.begin(), selector.end()))
        out.insert(name);
    }
  }
  return out;
}

}  // namespace osm::inline v1::kubernetes
