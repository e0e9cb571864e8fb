// An immutable, ordered set of encoded resources of one type, with its version: what a class has,
// what a proxy was sent, what it acknowledged. Sets are shared by pointer; operations that change
// nothing return the set they were given.
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
  // `resources` in any order, names unique, pointers not null.
  static ResourceSetPtr make(std::vector<EncodedPtr> resources);
  static const ResourceSetPtr& none();  // the empty set

  const std::vector<EncodedPtr>& resources() const { return resources_; }
  bool empty() const { return resources_.empty(); }
  EncodedPtr find(std::string_view name) const;  // null: not there

  // SHA-256, first 128 bits, hex, over the ordered (name, hash) of all resources. Every replica
  // computes the same, and a proxy that holds exactly this claims exactly this.
  const std::string& version() const { return version_; }

 private:
  explicit ResourceSet(std::vector<EncodedPtr> ordered);

  std::vector<EncodedPtr> resources_;
  std::string version_;
};

// The resources of `set` for which `keep` holds.
ResourceSetPtr filtered(const ResourceSetPtr& set,
                        const std::function<bool(const EncodedResource&)>& keep);
// Those that `names` holds / does not hold.
ResourceSetPtr only(const ResourceSetPtr& set, const NameSet& names);
ResourceSetPtr without(const ResourceSetPtr& set, const NameSet& names);

// `set` with `additions` put in, each in place of the resource of its name.
ResourceSetPtr merged(const ResourceSetPtr& set, std::vector<EncodedPtr> additions);

// The resources of `to` that `from` does not hold with the same bytes. A null `from` holds nothing.
std::vector<EncodedPtr> changed(const ResourceSetPtr& from, const ResourceSet& to);

// The names that `from` has and `to` has not. A null `from` has none.
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
