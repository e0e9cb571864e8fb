// Ports of its services that one workload serves. Target ports are resolved on that workload, and
// conflicting claims on one target port are settled. Translation configures the kept ports; the
// catalog reports the other claims. Both call this function, so they agree.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/values/service.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::model {

// Two claims on one target port with protocols that cannot share it.
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

// The number at which clients that dial `address` of a headless Service reach the port: its target
// port if an endpoint there has it, else the lowest number of the endpoints there. If an address
// has several, as while endpoints are rearranged, that one counts.
Port number_at(const ServiceEntry& service, const MeshService& port, const std::string& address);

// True for HTTP and gRPC, which one HTTP connection manager serves, and for the two kinds of TCP.
bool can_share_port(Protocol a, Protocol b);

// The target ports of the workload's services: named ones as in `workload.ports`, and any other
// numbers of the endpoints at the workload's address, since clients are sent there. Leaves out
// named ports that the workload and its endpoints lack, and services that are not in `services`. If
// claims conflict, the first by port name wins, then by service, then by port.
OwnPorts own_ports_of(const Table<ServiceEntry>& services, const Workload& workload);

}  // namespace osm::inline v1::model
