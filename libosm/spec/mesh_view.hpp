// One immutable state of the mesh specification, and its derivation from decoded objects.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"
#include "spec/decode.hpp"
#include "spec/virtual_addresses.hpp"

namespace osm::inline v1::spec {

// The valid objects of one kind by key, and the problems of the others.
template <class T>
struct DecodedKind {
  struct Entry {
    std::shared_ptr<const Object> object;  // decoded last
    std::shared_ptr<const T> value;        // null: invalid
    std::vector<Problem> problems;
  };
  std::map<ObjectKey, Entry> entries;
};

struct DecodedObjects {
  DecodedKind<Service> services;
  DecodedKind<ServiceAccount> accounts;
  DecodedKind<smi::HttpRouteGroup> route_groups;
  DecodedKind<smi::TcpRoute> tcp_routes;
  DecodedKind<smi::TrafficTarget> targets;
  DecodedKind<smi::TrafficSplit> splits;
  DecodedKind<MeshConfig> configs;  // one at most
  DecodedKind<MeshRootCertificate> roots;
  DecodedKind<Policy> policies;  // of several kinds
};

struct MeshView {
  SharedList<Service> services;
  SharedList<ServiceAccount> accounts;
  SharedList<smi::HttpRouteGroup> route_groups;
  SharedList<smi::TcpRoute> tcp_routes;
  SharedList<smi::TrafficTarget> targets;
  SharedList<smi::TrafficSplit> splits;
  SharedList<Policy> policies;
  std::map<ObjectKey, std::shared_ptr<const MeshRootCertificate>> roots;
  std::set<std::string> namespaces;
  MeshConfig config;
  bool synced = false;
  std::vector<Problem> problems;  // without path and line
};

// Lists valid objects without conflicts. Adds the rest, and dangling references, to `problems`.
// Result: Services whose allocated address is another one than before.
std::vector<VirtualAddresses::Move> resolve(const DecodedObjects& objects,
                                            VirtualAddresses& addresses, MeshView& view);

// The keys of different values. Values are compared by pointer.
std::vector<ObjectKey> changed_keys(const MeshView& before, const MeshView& after);

}  // namespace osm::inline v1::spec
