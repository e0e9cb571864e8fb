#include "mesh.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "ca.hpp"
#include "daemon.hpp"
#include "osm/etcd/backend.hpp"
#include "osm/kubernetes/backend.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "process.hpp"

namespace osm::controller {
namespace {

constexpr Gauge kV1IdentitiesAccepted{"osm_v1_identities_accepted",
                                      "1 while workloads of OSM v1.2 are accepted"};

// Failure: kStorage when `path` is no directory that can be read.
Status check_mesh_dir(const std::string& path) {
  const auto storage = [](std::string text) { return Error{ErrorCode::kStorage, std::move(text)}; };
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status))
    return storage(
        fmt::format("the mesh directory {} does not exist; create it (an empty one is an "
                    "empty mesh) or correct --mesh-dir",
                    path));
  if (!std::filesystem::is_directory(status))
    return storage(
        fmt::format("--mesh-dir {} is not a directory; name the directory that holds the "
                    "mesh's YAML files",
                    path));
  if (::access(path.c_str(), R_OK | X_OK) != 0)
    return storage(fmt::format("the mesh directory {} cannot be read: {}; run as a user that may",
                               path, std::generic_category().message(errno)));
  return {};
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::start(const Options& options, OwnRuntime& runtime,
                                          host::Start& startup) {
  std::unique_ptr<Mesh> mesh(new Mesh(options, runtime));
  OSM_TRY(mesh->backend_, options.on_kubernetes()      ? mesh->on_kubernetes()
                          : !options.mesh_etcd.empty() ? mesh->in_etcd()
                                                       : mesh->in_directory());
  OSM_TRY(mesh->read());
  OSM_TRY(mesh->board_, startup.wait_for(host::kRotationRecord, mesh->backend_.join));
  return mesh;
}

Result<Backend> Mesh::on_kubernetes() {
  // Somebody has to turn it off when the move is over: each start says that it is on.
  runtime_.metrics.set(kV1IdentitiesAccepted, {}, options_.beside_osm_v1 ? 1 : 0);
  if (options_.beside_osm_v1)
    runtime_.log.warning(
        "workloads of OSM v1.2 are accepted by the DNS names in their certificates; remove "
        "--beside-osm-v1 when no pod has a sidecar of OSM v1.2 any more",
        {});
  OSM_TRY(cluster_, kubernetes::connect({.kubeconfig = options_.kubeconfig,
                                         .environment = daemon::environment(),
                                         .io = runtime_.asio(),
                                         .runtime = runtime_}));
  return kubernetes::make_backend(
      {.board = {.cluster = *cluster_,
                 .runtime = waiting(),
                 .replica = replica_,
                 .mesh_name = options_.mesh_name,
                 .osm_namespace = options_.osm_namespace},
       .objects = daemon::with_executors(runtime_, reading_, runtime_.blocking)});
}

Result<Backend> Mesh::in_etcd() {
  return etcd::make_backend(
      {.etcd = daemon::etcd_of(options_.ca, runtime_),
       .objects_key = options_.mesh_etcd,
       .objects = daemon::with_executors(runtime_, runtime_.executor, watching_),
       .board = waiting(),
       .replica = replica_,
       .moved_from = options_.state_dir + "/rotation.json"});
}

Result<Backend> Mesh::in_directory() {
  OSM_TRY(check_mesh_dir(options_.mesh_dir));
  OSM_TRY(Backend own, make_directory_backend({.directory = options_.mesh_dir,
                                               .state_dir = options_.state_dir,
                                               .watcher = runtime_.asio(),
                                               .runtime = daemon::with_executors(
                                                   runtime_, runtime_.executor, records_),
                                               .replica = replica_}));
  if (options_.ca.ca_store != "etcd") return own;
  OSM_TRY(Backend shared, in_etcd());
  shared.objects_in = own.objects_in;
  shared.objects = std::move(own.objects);
  shared.last_mesh_config = std::move(own.last_mesh_config);
  return shared;
}

Status Mesh::read() {
  spec_ = spec::make_mesh_spec(
      {.store = *backend_.objects,
       .mesh_name = options_.mesh_name,
       .osm_namespace = options_.osm_namespace,
       .cluster_domain = options_.cluster_domain,
       .log = runtime_.log,
       .metrics = runtime_.metrics,
       .kept_config =
           spec::KeptConfigOptions{*backend_.last_mesh_config,
                                   daemon::with_executors(runtime_, runtime_.executor, records_)},
       .service_network = options_.service_cidr});
  OSM_TRY(machines_, Machines::start(options_, runtime_, backend_, *spec_, records_));
  clusters_ = std::make_unique<RemoteClusters>(options_.remote_clusters, options_.cluster_name,
                                               options_, runtime_);
  OSM_TRY(processes_, RemoteProviders::start(options_.providers, runtime_, options_.trust_domain));
  std::vector<WorkloadProvider*> machines = machines_->workload_providers();
  processes_->add_to(machines);
  all_machines_ = std::make_unique<AllMachines>(std::move(machines));
  if (cluster_)
    pods_ = kubernetes::make_provider({.store = *backend_.objects,
                                       .mesh_spec = *spec_,
                                       .log = runtime_.log,
                                       .metrics = runtime_.metrics,
                                       .cluster_name = options_.cluster_name});
  if (cluster_ || backend_.writer)
    validator_ = inject::make_validator({.mesh_spec = *spec_,
                                         .metrics = runtime_.metrics,
                                         .osm_namespace = options_.osm_namespace,
                                         .store = backend_.objects.get()});
  return {};
}

std::vector<ProviderEntry> Mesh::providers() const {
  std::vector<ProviderEntry> out;
  if (pods_) out.push_back({.provider = pods_.get()});
  for (const ProviderEntry& machines : machines_->providers()) out.push_back(machines);
  for (const ProviderEntry& cluster : clusters_->providers()) out.push_back(cluster);
  processes_->add_to(out);
  return out;
}

std::vector<WorkloadProvider*> Mesh::workload_providers() const {
  std::vector<WorkloadProvider*> out = all_machines_->providers();
  if (pods_) out.insert(out.begin(), pods_.get());
  return out;
}

std::vector<Problem> Mesh::problems() const {
  std::vector<Problem> out = clusters_->problems();
  if (cluster_ || !board_) return out;
  if (const auto known = board_->read("roots"); !known.ok())
    out.insert(out.begin(), {.code = known.error().code,
                             .object = {},
                             .path = "other controllers",
                             .field = {},
                             .cause = known.error().message});
  return out;
}

}  // namespace osm::controller
