#include "endpoint/selector_index.hpp"

#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::endpoint {

void SelectorIndex::set(const std::string& name, const Labels& selector) {
  if (const auto at = selectors_.find(name); at != selectors_.end()) {
    remove_member(names_, *at->second.begin(), name);
    selectors_.erase(at);
  }
  if (selector.empty()) return;
  names_[*selector.begin()].insert(name);
  selectors_.emplace(name, selector);
}

Labels SelectorIndex::get(const std::string& name) const {
  const Labels* selector = find_in(selectors_, name);
  return selector ? *selector : Labels();
}

std::set<std::string> SelectorIndex::matching(const Labels& labels) const {
  std::set<std::string> out;
  for (const Labels::value_type& label : labels)
    if (const auto* names = find_in(names_, label))
      for (const std::string& name : *names)
        if (selects(selectors_.at(name), labels)) out.insert(name);
  return out;
}

void ServiceSelectors::set(const std::string& service, const Labels& selector) {
  const Labels former = now_.get(service);
  if (former == selector) return;
  for (const Labels* one : {&former, &selector}) changed_.set(std::to_string(changes_++), *one);
  now_.set(service, selector);
}

SelectorIndex ServiceSelectors::take_changed() { return std::exchange(changed_, {}); }

}  // namespace osm::inline v1::endpoint
