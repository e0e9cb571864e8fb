// An immutable, ordered set of encoded resources of one type, with its version: the content of a
// class, or the content that a proxy was sent or acknowledged. Sets are shared by pointer; an
// operation without effect returns its argument.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/digest.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::ads {

using translate::EncodedPtr;
using translate::EncodedResource;

// Resource names, ordered and unique.
using NameSet = std::vector<std::string>;
using NameSetPtr = std::shared_ptr<const NameSet>;

NameSet ordered(std::vector<std::string> names);
bool contains(const NameSet& names, std::string_view name);
NameSet joined(const NameSet& a, const NameSet& b);
NameSet minus(const NameSet& a, const NameSet& b);

class ResourceSet;
using ResourceSetPtr = std::shared_ptr<const ResourceSet>;

class ResourceSet {
 public:
  // Makes a set from `resources`, in any order, with unique names and no null pointers.
  static ResourceSetPtr make(std::vector<EncodedPtr> resources);
  static const ResourceSetPtr& none();  // the empty set

  const std::vector<EncodedPtr>& resources() const { return resources_; }
  bool empty() const { return resources_.empty(); }
  EncodedPtr find(std::string_view name) const;  // null: not in the set

  // First 128 bits of SHA-256, in hex, over the ordered (name, hash) of all resources. Every
  // replica computes the same version, and a proxy that holds exactly this set claims this version.
  const std::string& version() const { return version_; }
  bool any_frozen() const { return any_frozen_; }

 private:
  explicit ResourceSet(std::vector<EncodedPtr> ordered);

  std::vector<EncodedPtr> resources_;
  std::string version_;
  bool any_frozen_;
};

// The resources of `set` for which `keep` holds.
ResourceSetPtr filtered(const ResourceSetPtr& set,
                        const std::function<bool(const EncodedResource&)>& keep);
// The resources of `set` that are in `names`, and those that are not.
ResourceSetPtr only(const ResourceSetPtr& set, const NameSet& names);
ResourceSetPtr without(const ResourceSetPtr& set, const NameSet& names);

// `set` with `additions`, each in place of the resource of its name.
ResourceSetPtr merged(const ResourceSetPtr& set, std::vector<EncodedPtr> additions);

// The resources of `to` that `from` does not hold with the same bytes. A null `from` holds nothing.
std::vector<EncodedPtr> changed(const ResourceSetPtr& from, const ResourceSet& to);

// The names in `from` that are not in `to`. A null `from` has none.
NameSet vanished(const ResourceSetPtr& from, const ResourceSet& to);

// Interns name sets: a thousand proxies that subscribe to the same names share one set.
class NameSetPool {
 public:
  NameSetPtr intern(const std::vector<std::string_view>& names);
  NameSetPtr intern(const NameSet& names);

 private:
  std::mutex mutex_;
  std::unordered_map<Digest, std::weak_ptr<const NameSet>> sets_;
  std::size_t sweep_at_ = 64;
};

}  // namespace osm::inline v1::ads
