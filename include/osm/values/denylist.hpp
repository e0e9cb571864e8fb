// Identities that the mesh refuses, because a key of theirs was stolen. Objects of kind Denylist
// name them; all objects are united. docs/mesh-objects.md has the fields and the effects.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/values/policy.hpp"

namespace osm::inline v1 {

// One Denylist, without its invalid elements. Lists are ordered and unique.
struct Denylist {
  std::string reason;  // for people; may be empty
  std::vector<ServiceIdentity> accounts;
  std::vector<ProxyId> proxies;

  friend bool operator==(const Denylist&, const Denylist&) = default;
};

// An object that denies an identity.
struct OSM_API Denial {
  ObjectKey object;
  std::string reason;

  // "Denylist osm-system/stolen denies it (a lost laptop)"
  std::string text() const;

  friend bool operator==(const Denial&, const Denial&) = default;
};

// Everything that is denied. If several objects deny one identity, the first by key is named.
struct OSM_API Denials {
  std::map<ServiceIdentity, Denial> accounts;
  std::map<ProxyId, Denial> proxies;

  // True if nothing is denied.
  bool empty() const { return accounts.empty() && proxies.empty(); }
  // The denial of a proxy, by its UUID or its account; null: it is not denied. Lifetime: this
  // value's.
  const Denial* find(const ProxyId& proxy, const ServiceIdentity& account) const;

  friend bool operator==(const Denials&, const Denials&) = default;
};

// The Denylists among `policies`, which are ordered by key (MeshSpec::list_policies()). Failure:
// none. Thread: any. Blocking: no.
OSM_API Denials denials_of(const std::vector<std::shared_ptr<const Policy>>& policies);

}  // namespace osm::inline v1
