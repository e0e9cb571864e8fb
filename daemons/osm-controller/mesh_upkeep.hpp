// Work of a controller on Kubernetes beside its control plane: the validating webhook, the admin
// API for callers with a token, and the upkeep of the cluster.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "mesh.hpp"
#include "options.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/host/start.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/net/http.hpp"
#include "osm/net/http_server.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::controller {

// Lifetime: everything outlives the upkeep.
struct MeshUpkeepOptions {
  const Options& options;
  OwnRuntime& runtime;
  Mesh& mesh;  // on Kubernetes
  ControlPlane& control_plane;
  certificate::Manager& manager;
  const RootRotation& roots;
};

class MeshUpkeep {
 public:
  // Failure: the CA's; kInvalidArgument (it cannot listen). Blocking: until certificates are
  // issued.
  static Result<std::unique_ptr<MeshUpkeep>> start(const MeshUpkeepOptions& with,
                                                   host::Start& startup);

  // Objects of the whole cluster that are missing or changed. Thread: any.
  std::vector<Problem> problems() const;
  // For RootRotation::follow(), which stops before this upkeep.
  RotationParticipants participants() const;

  // Serves the admin API to people who have no access to this machine, until stop_servers().
  Status serve_admin(net::Handler handler);

  // Ends the upkeep, and the servers stay. Idempotent.
  void stop();
  // Ends the servers and releases their certificate. Idempotent.
  void stop_servers(std::chrono::milliseconds deadline);

 private:
  explicit MeshUpkeep(const MeshUpkeepOptions& with) : with_(with) {}
  certificate::Subject subject(const TrustDomains& trust_domains) const;

  // Reviews that are answered at once.
  static constexpr unsigned kReviews = 4;

  const MeshUpkeepOptions with_;
  // The validating webhook uses it.
  net::Lane reviews_{with_.runtime.lanes(),
                     {.name = "reviews", .bound = kReviews, .watched = true}};
  // Bounds the reviews of tokens that anybody in the cluster can cause.
  net::Lane asking_{with_.runtime.lanes(), {.name = "admin by token", .bound = 2}};
  std::unique_ptr<certificate::KeptCertificate> certificate_;
  std::unique_ptr<net::HttpServer> webhook_;
  std::unique_ptr<net::HttpServer> admin_;
  mutable std::mutex upkeep_mutex_;  // monitoring asks it while the controller ends
  std::unique_ptr<kubernetes::Upkeep> upkeep_;
};

}  // namespace osm::controller
