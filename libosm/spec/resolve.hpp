// Derives a SpecSnapshot from decoded objects.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "osm/object.hpp"
#include "osm/values/spec_snapshot.hpp"
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
  DecodedKind<MeshConfig> configs;         // one at most
  DecodedKind<MeshRootCertificate> roots;  // of one namespace
  DecodedKind<Policy> policies;            // of several kinds
};

// Brings the tables of `snapshot` to the valid objects without conflicts, and its MeshConfig to the
// valid one, if there is one. A table whose objects have not changed keeps its pointer. Adds the
// problems of the rest, and dangling references; `problems` are ordered then, without path and
// line. Result: Services whose allocated address is another one than before.
std::vector<VirtualAddresses::Move> resolve(const DecodedObjects& objects,
                                            VirtualAddresses& addresses, SpecSnapshot& snapshot,
                                            std::vector<Problem>& problems);

}  // namespace osm::inline v1::spec
