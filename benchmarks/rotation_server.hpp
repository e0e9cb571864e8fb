// A whole control plane whose roots can be rotated, under measurement: ControlPlane and
// RootRotation over two CAs in directories, as osm-controller wires them on machines.
#pragma once

#include <memory>
#include <string>

#include "measured_server.hpp"
#include "osm/result.hpp"
#include "synthetic_mesh.hpp"

namespace osm::bench {

struct RotationDirectories {
  std::string ca;       // signs at first
  std::string next_ca;  // signs when Change::kRoot is done
  std::string record;   // how far that is
};

// Its metrics have, beside the library's: "rotated": 1 when the next root signs and the first is
// trusted no more; "lag": certificates and proxies that are not where they are to be; "proxies":
// connected ones.
Result<std::unique_ptr<MeasuredServer>> start_rotation_server(
    const MeshSize& size, const RotationDirectories& directories);

}  // namespace osm::bench
