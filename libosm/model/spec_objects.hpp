// What people wrote, as one generation of the mesh read it: the decoded objects, shared.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"
#include "osm/values/mesh_config.hpp"

namespace osm::inline v1::model {

struct SpecObjects {
  MeshConfig config;
  std::vector<std::string> namespaces;  // of the mesh
  SharedList<Service> services;         // these are ordered by name
  SharedList<smi::TrafficTarget> targets;
  SharedList<smi::TrafficSplit> splits;
  SharedList<smi::TcpRoute> tcp_routes;
  SharedList<smi::HttpRouteGroup> http_routes;
};

inline constexpr const char* kMeshConfigKind = "MeshConfig";

// Calls visit(kind, list) with the kind's name and a pointer to its list, for every kind but
// MeshConfig. Who refers to others comes before them.
template <class Visit>
void for_each_kind(Visit visit) {
  visit("Service", &SpecObjects::services);
  visit("TrafficTarget", &SpecObjects::targets);
  visit("TrafficSplit", &SpecObjects::splits);
  visit("TCPRoute", &SpecObjects::tcp_routes);
  visit("HTTPRouteGroup", &SpecObjects::http_routes);
}

// The objects of `after` that `before` does not hold with the same value, in the order of
// for_each_kind(), then by name; a MeshConfig first, without namespace and name. What is gone is
// not among them.
std::vector<ObjectKey> new_in(const SpecObjects& before, const SpecObjects& after);

// `after`, but the objects that `old` names are as in `before`: another value, or not there.
SpecObjects mixed(const SpecObjects& before, const SpecObjects& after,
                  const std::set<ObjectKey>& old);

// Nothing but the config, the namespaces and the one object, if it is there.
SpecObjects only(const SpecObjects& objects, const ObjectKey& key);

}  // namespace osm::inline v1::model
