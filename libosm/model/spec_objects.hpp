// The decoded objects of one generation of the mesh, shared.
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
  std::vector<std::string> namespaces;  // namespaces of the mesh
  SharedList<Service> services;         // these are ordered by name
  SharedList<smi::TrafficTarget> targets;
  SharedList<smi::TrafficSplit> splits;
  SharedList<smi::TcpRoute> tcp_routes;
  SharedList<smi::HttpRouteGroup> http_routes;
};

inline constexpr const char* kMeshConfigKind = "MeshConfig";

// Calls visit(kind, list) with the kind's name and a pointer to its list, for every kind but
// MeshConfig. A kind that refers to others comes before them.
template <class Visit>
void for_each_kind(Visit visit) {
  visit("Service", &SpecObjects::services);
  visit("TrafficTarget", &SpecObjects::targets);
  visit("TrafficSplit", &SpecObjects::splits);
  visit("TCPRoute", &SpecObjects::tcp_routes);
  visit("HTTPRouteGroup", &SpecObjects::http_routes);
}

// The objects of `after` that `before` lacks or has with another value, in the order of
// for_each_kind(), then by name; a MeshConfig first, without namespace and name. Removed objects
// are not included.
std::vector<ObjectKey> new_in(const SpecObjects& before, const SpecObjects& after);

// `after`, except that the objects of `old` are as in `before`: with another value, or absent.
SpecObjects mixed(const SpecObjects& before, const SpecObjects& after,
                  const std::set<ObjectKey>& old);

// Only the config, the namespaces and the one object, if it exists.
SpecObjects only(const SpecObjects& objects, const ObjectKey& key);

}  // namespace osm::inline v1::model
