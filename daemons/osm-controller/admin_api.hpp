// The admin API over <state-dir>/admin.sock; daemons/README.md is its contract. Handlers may block
// (they issue certificates and ask the ADS server), so they run on threads that may.
#pragma once

#include <functional>
#include <vector>

#include "ads/ads_server.hpp"
#include "net/http.hpp"
#include "osm/certificate.hpp"
#include "osm/clock.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/object_store.hpp"

namespace osm::controller {

// All outlive the handler.
struct AdminApiOptions {
  TrustDomain trust_domain;
  const Clock& clock;
  LogSink& log;
  const ObjectStore& store;
  const MeshSpec& spec;
  const WorkloadProvider& workloads;
  certificate::Manager& manager;
  MeshCataloger& catalog;
  const ads::AdsServer& ads;
  std::function<std::vector<Problem>()> problems;
};

net::Handler make_admin_api(const AdminApiOptions& options);

}  // namespace osm::controller
