// `osm certificate rotate` without a name: the next root of the mesh, on machines.
#pragma once

#include <chrono>
#include <string>

#include "admin_client.hpp"

namespace osm::cli {

struct RotateRootOptions {
  std::string mesh_dir;  // of the controller; this command's file is written there
  std::string name;      // of the next root; empty: one from the time
  std::string osm_namespace;
  std::string trust_domain;             // of the next root; empty: the one that signs now
  std::chrono::milliseconds timeout{};  // how long to follow it
};

// Declares the next root in <mesh-dir>/osm-root-certificates.yaml, this command's own file, and
// follows the rotation; a line for each step. Result: the exit code: 0 the next root signs and the
// one before is forgotten; 1 failed; 2 not in time, and it goes on. Blocking: up to the time-out.
int rotate_root(const AdminClient& client, const RotateRootOptions& options);

}  // namespace osm::cli
