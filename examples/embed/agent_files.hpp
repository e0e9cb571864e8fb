// The files that make a machine a member of the mesh, for the vendor's own agent to install.
#pragma once

#include <filesystem>

#include "osm/control_plane.hpp"

namespace vendor {

// Writes Envoy's bootstrap, the proxy certificate, host names and the interception script of
// `workload`. Run as root: the key is for the proxy's user alone.
osm::Status write_agent_files(osm::ControlPlane& mesh, const osm::MeshSpec& spec,
                              const osm::certificate::Manager& certificates,
                              const osm::Workload& workload,
                              const std::filesystem::path& directory);

}  // namespace vendor
