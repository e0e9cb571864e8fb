// The source of the mesh's objects and workloads: a directory of this machine, etcd, or a
// Kubernetes cluster. All differences between them are here; the defaults are a single
// controller's.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/watched_executor.hpp"
#include "machines.hpp"
#include "options.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/inject/validator.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/net/http.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/spec/object_writer.hpp"
#include "process.hpp"
#include "remote_clusters.hpp"
#include "remote_providers.hpp"
#include "startup.hpp"

namespace osm::controller {

class MeshSource {
 public:
  // Lifetime: both outlive the source.
  MeshSource(const Options& options, OwnRuntime& runtime) : options_(options), runtime_(runtime) {}
  virtual ~MeshSource() = default;

  ObjectStore& store() { return *store_; }
  MeshSpec& spec() { return *spec_; }
  // For `osm apply`. Null: objects are written elsewhere.
  virtual spec::ObjectWriter* writer() { return nullptr; }
  // Judges objects before they are stored. Null: there is no writer() and no webhook.
  const inject::Validator* validator() const { return validator_.get(); }
  // The machines that `osm vm drain` took out of their Services.
  DrainedMachines& drained() const { return machines_->drained(); }
  // The machines among the workloads, which `osm vm bootstrap` asks for.
  const WorkloadProvider& machines() const { return *all_machines_; }
  kubernetes::Cluster* cluster() const { return cluster_.get(); }  // null: not on Kubernetes

  // In order of precedence: the source's own, those of other clusters, those of --providers.
  std::vector<ProviderEntry> providers() const;
  std::vector<WorkloadProvider*> workload_providers() const;

  // The record of root rotations that all replicas read, and the board on which they report and
  // choose the one that takes the steps.
  TextRecord& rotation_record() { return *record_; }
  // The record of machines' tokens; null: machines do not join by token here.
  virtual TextRecord* join_tokens() { return nullptr; }
  virtual ReplicaBoard* board() { return nullptr; }        // null: there are no other replicas
  const std::string& replica() const { return replica_; }  // its name on the board
  // Certificates outside of processes that lag behind: RotationParticipants::kept_lag.
  virtual std::optional<std::size_t> kept_lag() const { return 0; }

  // Starts the work beside the control plane: webhooks, custom resources, statuses,
  // certificates in Secrets. The first three outlive it; it ends with stop_upkeep(), which is
  // idempotent. Blocking: until certificates are issued.
  virtual Status start_upkeep(ControlPlane&, certificate::Manager&, const RootRotation&,
                              daemon::Startup&) {
    return {};
  }
  // Objects of the whole cluster that are missing or changed; other replicas and clusters that are
  // not known. Thread: any.
  std::vector<Problem> problems() const {
    std::vector<Problem> out = own_problems();
    for (Problem& problem : clusters_->problems()) out.push_back(std::move(problem));
    return out;
  }
  // Failure: reading the mesh's objects hangs. Thread: any. Blocking: no.
  Status reads() const { return reading_.check(); }
  // Its own certificates follow: RotationParticipants::on_trust_domains. After start_upkeep().
  virtual Status set_trust_domains(const TrustDomains&) { return {}; }
  // Serves the admin API to people who have no access to this machine, until stop_webhook().
  virtual Status serve_admin(net::Handler) { return {}; }
  virtual void stop_upkeep() {}
  // Ends the webhook, if there is one, and releases its certificate: the manager of start_upkeep()
  // may end then. Idempotent.
  virtual void stop_webhook(std::chrono::milliseconds /*deadline*/) {}

 protected:
  // The provider of pods; null: not on Kubernetes.
  virtual kubernetes::Provider* pods() const { return nullptr; }
  virtual std::vector<Problem> own_problems() const { return {}; }
  // Reads the mesh from `store`. `last_config` has the last valid MeshConfig, `drains` the drained
  // machines. Failure: a fault of the options of providers, with the remedy.
  Status read(std::unique_ptr<ObjectStore> store, std::unique_ptr<TextRecord> last_config,
              std::unique_ptr<TextRecord> drains);
  void make_validator();

  const Options& options_;
  OwnRuntime& runtime_;
  const std::string replica_ = daemon::replica_name(runtime_.rng);
  WatchedExecutor reading_{"objects of the mesh", runtime_.executor, runtime_.clock};
  std::unique_ptr<kubernetes::Cluster> cluster_;
  std::optional<net::Lane> watching_;  // of a store that waits for its server
  // Not watched: some records are files, and a restart brings back no disk that stands still.
  net::Lane records_{runtime_.lanes(), {.name = "records", .bound = 3}};
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<TextRecord> last_config_;
  std::unique_ptr<TextRecord> drains_;
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<Machines> machines_;
  std::unique_ptr<RemoteClusters> clusters_;
  std::unique_ptr<RemoteProviders> processes_;
  std::unique_ptr<AllMachines> all_machines_;
  std::unique_ptr<TextRecord> record_;
  std::unique_ptr<inject::Validator> validator_;
};

// All: Failure: the fault of the directory, the flags or the kubeconfig, and the remedy.

// A directory of YAML, and the machines in it. Blocking: with a CA in etcd, until etcd has
// answered.
Result<std::unique_ptr<MeshSource>> make_directory_source(const Options& options,
                                                          OwnRuntime& runtime,
                                                          daemon::Startup& startup);
// The objects, the CA's record and the replicas in etcd: nothing is kept on this machine.
// Blocking: until etcd has answered.
Result<std::unique_ptr<MeshSource>> make_etcd_source(const Options& options, OwnRuntime& runtime,
                                                     daemon::Startup& startup);
// An API server: its objects, pods and custom resources.
Result<std::unique_ptr<MeshSource>> make_kubernetes_source(const Options& options,
                                                           OwnRuntime& runtime);

}  // namespace osm::controller
