// The admin API over <state-dir>/admin.sock; daemons/README.md is its contract. Handlers may block
// (they issue certificates and ask the ADS server), so they run on threads that may.
#pragma once

#include "osm/certificate/manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/clock.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/net/http.hpp"
#include "osm/object_store.hpp"

namespace osm::controller {

// All outlive the handler.
struct AdminApiOptions {
  const Clock& clock;
  LogSink& log;
  ObjectStore& store;
  const MeshSpec& spec;
  const WorkloadProvider& workloads;
  certificate::Manager& manager;
  const RootRotation& roots;
  ControlPlane& control_plane;
  std::function<std::vector<Problem>()> problems;  // the control plane's and others'. Thread: any.
};

net::Handler make_admin_api(const AdminApiOptions& options);

}  // namespace osm::controller
