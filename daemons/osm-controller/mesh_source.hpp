// The source of the mesh's objects and workloads: a directory of this machine, or a Kubernetes
// cluster. All differences between the two are here; the defaults are a single controller's.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/spec/vm_provider.hpp"
#include "process.hpp"

namespace osm::controller {

class MeshSource {
 public:
  // Lifetime: both outlive the source.
  MeshSource(const Options& options, OwnRuntime& runtime) : options_(options), runtime_(runtime) {}
  virtual ~MeshSource() = default;

  ObjectStore& store() { return *store_; }
  MeshSpec& spec() { return *spec_; }
  // The machines among the workloads, which `osm vm bootstrap` asks for.
  const WorkloadProvider& machines() const { return *vms_; }
  kubernetes::Cluster* cluster() const { return cluster_.get(); }  // null: not on Kubernetes

  // In order of precedence.
  virtual std::vector<ProviderEntry> providers() { return {{.provider = vms_.get()}}; }
  virtual std::vector<WorkloadProvider*> workload_providers() { return {vms_.get()}; }

  // The record of root rotations that all replicas read, the board on which they report, and true
  // if this replica takes the steps.
  TextRecord& rotation_record() { return *record_; }
  virtual ReplicaBoard* board() { return nullptr; }        // null: there are no other replicas
  const std::string& replica() const { return replica_; }  // its name on the board
  virtual bool leads() const { return true; }
  // Certificates outside of processes that lag behind: RotationParticipants::kept_lag.
  virtual std::optional<std::size_t> kept_lag() const { return 0; }

  // Starts the work beside the control plane: webhooks, custom resources, statuses,
  // certificates in Secrets. All three outlive it; it ends with stop_upkeep(), which is idempotent.
  // Blocking: until certificates are issued.
  virtual Status start_upkeep(ControlPlane&, certificate::Manager&, const RootRotation&) {
    return {};
  }
  // Objects of the whole cluster that are missing or changed; other replicas that are not known.
  // Thread: any.
  virtual std::vector<Problem> problems() const { return {}; }
  // Its own certificates follow: RotationParticipants::on_trust_domains. After start_upkeep().
  virtual Status set_trust_domains(const TrustDomains&) { return {}; }
  virtual void stop_upkeep() {}
  // Waits until other replicas are asked, and ends the webhook within `deadline` after it. Without
  // a webhook it does not wait.
  virtual void stop_webhook(std::chrono::steady_clock::time_point /*ask_others*/,
                            std::chrono::milliseconds /*deadline*/) {}

 protected:
  // Reads the mesh from `store`. `last_config` has the last valid MeshConfig.
  void read(std::unique_ptr<ObjectStore> store, std::unique_ptr<TextRecord> last_config);

  const Options& options_;
  OwnRuntime& runtime_;
  const std::string replica_ = daemon::replica_name(runtime_.rng);
  std::unique_ptr<kubernetes::Cluster> cluster_;
  std::unique_ptr<ObjectStore> store_;
  net::Threads keeping_{1};  // waits for the record of the last MeshConfig
  std::unique_ptr<TextRecord> last_config_;
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<vm::VmProvider> vms_;
  std::unique_ptr<TextRecord> record_;
};

// Both: Failure: the fault of the directory or the kubeconfig, and the remedy.

// A directory of YAML, and the VirtualMachines in it.
Result<std::unique_ptr<MeshSource>> make_directory_source(const Options& options,
                                                          OwnRuntime& runtime);
// An API server: its objects, pods and custom resources.
Result<std::unique_ptr<MeshSource>> make_kubernetes_source(const Options& options,
                                                           OwnRuntime& runtime);

}  // namespace osm::controller
