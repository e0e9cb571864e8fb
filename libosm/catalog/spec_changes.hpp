// Differences between two states of the mesh specification, as the builder asks for them.
#pragma once

#include <map>
#include <set>

#include "osm/object.hpp"
#include "osm/values/spec_snapshot.hpp"

namespace osm::inline v1::catalog {

struct SpecChanges {
  bool namespaces = false;
  bool splits = false;
  bool routes = false;
  bool accounts = false;  // ServiceAccount objects, which shape no proxy
  std::set<ServiceName> services;
  std::set<smi::ObjectName> targets;
  // All of the above but accounts, and every other kind that shapes proxies; false: removed.
  std::map<ObjectKey, bool> objects;
};

SpecChanges changes_between(const SpecSnapshot& before, const SpecSnapshot& after);

}  // namespace osm::inline v1::catalog
