// The source of the mesh's objects and workloads: a directory of this machine, or a Kubernetes
// cluster. All differences between the two are here.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "options.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::controller {

// Both outlive the source.
struct MeshSourceOptions {
  const Options& options;
  OwnRuntime& runtime;
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

  // The record of root rotations that all replicas read, the board on which they report, and true
  // if this replica takes the steps.
  virtual RotationRecord& rotation_record() = 0;
  virtual ReplicaBoard* board() = 0;  // null: there are no other replicas
  virtual bool leads() const = 0;
  // Certificates outside of processes that lag behind: RotationParticipants::kept_lag.
  virtual std::optional<std::size_t> kept_lag() const = 0;

  // Starts the work beside the control plane: webhooks, custom resources, statuses,
  // certificates in Secrets. All three outlive it; it ends with stop(), which is idempotent.
  // Blocking: until certificates are issued.
  virtual Status start_upkeep(ControlPlane& control_plane, certificate::Manager& manager,
                              const RootRotation& roots) = 0;
  // Its own certificates follow: RotationParticipants::on_trust_domains. After start_upkeep().
  virtual Status set_trust_domains(const TrustDomains& trust_domains) = 0;
  virtual void stop(std::chrono::milliseconds deadline) = 0;
};

// Failure: what is wrong with the directory or the kubeconfig, and the remedy.
Result<std::unique_ptr<MeshSource>> make_mesh_source(const MeshSourceOptions& with);

}  // namespace osm::controller
