// The mesh of this controller: its backend, its objects, and the providers of its workloads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/watched_executor.hpp"
#include "daemon.hpp"
#include "machines.hpp"
#include "options.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/host/start.hpp"
#include "osm/inject/validator.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/result.hpp"
#include "osm/runtime/backend.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/replica_board.hpp"
#include "remote_clusters.hpp"
#include "remote_providers.hpp"

namespace osm::controller {

class Mesh {
 public:
  // Lifetime: all outlive the mesh. Failure: the fault of the directory, the flags or the
  // kubeconfig, and the remedy. Blocking: with a CA in etcd, until etcd has answered.
  static Result<std::unique_ptr<Mesh>> start(const Options& options, OwnRuntime& runtime,
                                             host::Start& startup);

  const Backend& backend() const { return backend_; }
  MeshSpec& spec() const { return *spec_; }
  // Judges objects before they are stored. Null: there is no writer and no webhook.
  const inject::Validator* validator() const { return validator_.get(); }
  // The machines that `osm vm drain` took out of their Services.
  DrainedMachines& drained() const { return machines_->drained(); }
  // The machines among the workloads, which `osm vm bootstrap` asks for.
  const WorkloadProvider& machines() const { return *all_machines_; }
  kubernetes::Cluster* cluster() const { return cluster_.get(); }  // null: not on Kubernetes
  // The board on which replicas report, and choose the one that takes the steps of root rotations.
  ReplicaBoard* board() const { return board_.get(); }  // null: there are no other replicas

  // In order of precedence: pods, machines, those of other clusters, those of --providers.
  std::vector<ProviderEntry> providers() const;
  std::vector<WorkloadProvider*> workload_providers() const;

  // For parts that wait for the API server or etcd: issuing certificates must not wait with them.
  Runtime waiting() { return daemon::with_executors(runtime_, waiting_, waiting_); }
  // Other replicas and clusters that are not known. Thread: any.
  std::vector<Problem> problems() const;
  // Failure: reading the mesh's objects hangs. Thread: any. Blocking: no.
  Status reads() const { return reading_.check(); }

 private:
  Mesh(const Options& options, OwnRuntime& runtime) : options_(options), runtime_(runtime) {}
  Result<Backend> on_kubernetes();
  Result<Backend> in_etcd();
  Result<Backend> in_directory();
  Status read();

  const Options& options_;
  OwnRuntime& runtime_;
  const std::string replica_ = host::replica_name(runtime_.rng);
  WatchedExecutor reading_{"objects of the mesh", runtime_.executor, runtime_.clock};
  std::unique_ptr<kubernetes::Cluster> cluster_;
  net::Lane watching_{runtime_.lanes(), {.name = "objects in etcd", .watched = true}};
  // Not watched: some records are files, and a restart brings back no disk that stands still.
  net::Lane records_{runtime_.lanes(), {.name = "records", .bound = 3}};
  net::Lane waiting_{
      runtime_.lanes(),
      options_.on_kubernetes()
          ? net::LaneOptions{.name = "statuses, Secrets and Leases", .bound = 4, .watched = true}
          : net::LaneOptions{.name = "other controllers in etcd", .watched = true}};
  Backend backend_;
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<Machines> machines_;
  std::unique_ptr<RemoteClusters> clusters_;
  std::unique_ptr<RemoteProviders> processes_;
  std::unique_ptr<AllMachines> all_machines_;
  std::unique_ptr<kubernetes::Provider> pods_;  // null: not on Kubernetes
  std::unique_ptr<inject::Validator> validator_;
  std::unique_ptr<ReplicaBoard> board_;
};

}  // namespace osm::controller
