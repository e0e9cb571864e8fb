#include "ads/resource_set.hpp"

#include <algorithm>
#include <iterator>

#include "base/check.hpp"

namespace osm::inline v1::ads {
namespace {

bool by_name(const EncodedPtr& a, const EncodedPtr& b) { return a->name < b->name; }

}  // namespace

NameSet ordered(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool contains(const NameSet& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name);
}

NameSet joined(const NameSet& a, const NameSet& b) {
  NameSet both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

NameSet minus(const NameSet& a, const NameSet& b) {
  NameSet rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest;
}

ResourceSet::ResourceSet(std::vector<EncodedPtr> ordered) : resources_(std::move(ordered)) {
  DigestBuilder digest;
  for (const EncodedPtr& resource : resources_) digest.add(resource->name).add(resource->hash);
  version_ = digest.finish().hex();
  any_frozen_ = std::any_of(resources_.begin(), resources_.end(),
                            [](const EncodedPtr& resource) { return resource->frozen; });
}

ResourceSetPtr ResourceSet::make(std::vector<EncodedPtr> resources) {
  std::sort(resources.begin(), resources.end(), by_name);
  OSM_CHECK(std::adjacent_find(resources.begin(), resources.end(),
                               [](const EncodedPtr& a, const EncodedPtr& b) {
                                 return a->name == b->name;
                               }) == resources.end());
  return ResourceSetPtr(new ResourceSet(std::move(resources)));
}

const ResourceSetPtr& ResourceSet::none() {
  static const ResourceSetPtr empty = make({});
  return empty;
}

EncodedPtr ResourceSet::find(std::string_view name) const {
  auto at = std::lower_bound(resources_.begin(), resources_.end(), name,
                             [](const EncodedPtr& r, std::string_view n) { return r->name < n; });
  return at != resources_.end() && (*at)->name == name ? *at : nullptr;
}

ResourceSetPtr filtered(const ResourceSetPtr& set,
                        const std::function<bool(const EncodedResource&)>& keep) {
  std::vector<EncodedPtr> kept;
  for (const EncodedPtr& resource : set->resources())
    if (keep(*resource)) kept.push_back(resource);
  if (kept.size() == set->resources().size()) return set;
  return kept.empty() ? ResourceSet::none() : ResourceSet::make(std::move(kept));
}

ResourceSetPtr only(const ResourceSetPtr& set, const NameSet& names) {
  return filtered(set, [&](const EncodedResource& r) { return contains(names, r.name); });
}

ResourceSetPtr without(const ResourceSetPtr& set, const NameSet& names) {
  return filtered(set, [&](const EncodedResource& r) { return !contains(names, r.name); });
}

ResourceSetPtr merged(const ResourceSetPtr& set, std::vector<EncodedPtr> additions) {
  std::sort(additions.begin(), additions.end(), by_name);
  const auto present = [&](const EncodedPtr& r) { return set->find(r->name) == r; };
  if (std::all_of(additions.begin(), additions.end(), present)) return set;
  std::vector<EncodedPtr> all;
  // set_union takes equal elements from its first range: the additions win.
  std::set_union(additions.begin(), additions.end(), set->resources().begin(),
                 set->resources().end(), std::back_inserter(all), by_name);
  return ResourceSet::make(std::move(all));
}

std::vector<EncodedPtr> changed(const ResourceSetPtr& from, const ResourceSet& to) {
  if (!from) return to.resources();
  if (from.get() == &to) return {};
  std::vector<EncodedPtr> result;
  auto old = from->resources().begin();
  const auto end = from->resources().end();
  for (const EncodedPtr& resource : to.resources()) {
    while (old != end && (*old)->name < resource->name) ++old;
    const bool same = old != end && (*old)->name == resource->name &&
                      (*old == resource || (*old)->hash == resource->hash);
    if (!same) result.push_back(resource);
  }
  return result;
}

NameSet vanished(const ResourceSetPtr& from, const ResourceSet& to) {
  NameSet names;
  if (!from || from.get() == &to) return names;
  for (const EncodedPtr& resource : from->resources())
    if (!to.find(resource->name)) names.push_back(resource->name);
  return names;
}

NameSetPtr NameSetPool::intern(const NameSet& names) {
  return intern(std::vector<std::string_view>(names.begin(), names.end()));
}

NameSetPtr NameSetPool::intern(const std::vector<std::string_view>& names) {
  std::vector<std::string_view> ordered = names;
  std::sort(ordered.begin(), ordered.end());
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  DigestBuilder digest;
  for (std::string_view name : ordered) digest.add(name);
  std::lock_guard lock(mutex_);
  std::weak_ptr<const NameSet>& slot = sets_[digest.finish()];
  if (NameSetPtr existing = slot.lock()) return existing;
  auto fresh = std::make_shared<const NameSet>(ordered.begin(), ordered.end());
  slot = fresh;
  if (sets_.size() > sweep_at_) {
    std::erase_if(sets_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = 2 * sets_.size() + 64;
  }
  return fresh;
}

}  // namespace osm::inline v1::ads
