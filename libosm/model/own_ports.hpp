// Which ports of its services one workload serves: target ports resolved on that very workload, and
// conflicting claims on one target port settled. Translation configures the ports that are kept;
// the catalog reports the claims that are not. Both call this, so they cannot disagree.
#pragma once

#include <compare>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/values/service.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::model {

// Two claims on one target port in protocols that cannot share it.
struct PortConflict {
  MeshService kept;
  MeshService left_out;

  friend bool operator==(const PortConflict&, const PortConflict&) = default;
  friend std::strong_ordering operator<=>(const PortConflict&, const PortConflict&) = default;
};

struct OwnPorts {
  std::vector<MeshService> ports;       // ordered, unique, target ports never 0
  std::vector<PortConflict> conflicts;  // ordered

  friend bool operator==(const OwnPorts&, const OwnPorts&) = default;
};

// HTTP and gRPC share a port: one HTTP connection manager serves both. Any other pair must be
// equal.
bool can_share_port(Protocol a, Protocol b);

// A named target port is looked up in `workload.ports` and left out where the workload lacks it.
// Services of the workload that are not in `services` are left out. Of conflicting claims the
// first by port name wins, then by service, then by port.
OwnPorts own_ports_of(const Table<ServiceEntry>& services, const Workload& workload);

}  // namespace osm::inline v1::model
