// Where the mesh is written and its workloads run: a directory of this machine, or a Kubernetes
// cluster. What differs between the two is here and nowhere else in the daemon.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "options.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/clock.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/prometheus_registry.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::controller {

// What sources work with; all outlive them.
struct MeshSurroundings {
  const Options& options;
  const Clock& clock;
  Rng& rng;
  LogSink& log;
  net::PrometheusRegistry& metrics;
  net::Threads& io;
  net::Threads& blocking;
};

class MeshSource {
 public:
  virtual ~MeshSource() = default;

  virtual ObjectStore& store() = 0;
  virtual MeshSpec& spec() = 0;
  // In order of precedence.
  virtual std::vector<ProviderEntry> providers() = 0;
  virtual std::vector<WorkloadProvider*> workload_providers() = 0;
  // The machines among the workloads, which `osm vm bootstrap` asks for.
  virtual const WorkloadProvider& machines() = 0;

  // The CA that all replicas of this mesh share. `ca_directory`: where one machine keeps it.
  // Blocking: until its store answers.
  virtual Result<std::unique_ptr<certificate::Issuer>> load_ca(const std::string& ca_directory) = 0;

  // The CA that an object describes. Blocking: until it answers.
  virtual Result<std::shared_ptr<certificate::Issuer>> make_root(
      const MeshRootCertificate& described) = 0;

  // Where all replicas find how far a rotation of roots is, where they tell each other what they
  // see of it, and whether this one takes its steps.
  virtual RotationRecord& rotation_record() = 0;
  virtual ReplicaBoard& board() = 0;
  virtual bool leads() const = 0;
  // Certificates outside of processes that lag behind: RotationParticipants::kept_lag.
  virtual std::optional<std::size_t> kept_lag() const = 0;

  // What the mesh needs beside its control plane: webhooks, custom resources, statuses,
  // certificates in Secrets. All three outlive it; it ends with stop(), which is idempotent.
  // Blocking: until certificates are issued.
  virtual Status start_upkeep(ControlPlane& control_plane, certificate::Manager& manager,
                              const RootRotation& roots) = 0;
  // Its own certificates follow: RotationParticipants::on_trust_domains. After start_upkeep().
  virtual Status set_trust_domains(const TrustDomains& trust_domains) = 0;
  virtual void stop(std::chrono::milliseconds deadline) = 0;
};

// Failure: what is wrong with the directory or the kubeconfig, and the remedy.
Result<std::unique_ptr<MeshSource>> make_mesh_source(const MeshSurroundings& surroundings);

}  // namespace osm::controller
