#include "mesh_source.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "ca.hpp"
#include "daemon.hpp"
#include "osm/certificate/etcd_replicas.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/spec/etcd_store.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "state_dir.hpp"

namespace osm::controller {

Status MeshSource::read(std::unique_ptr<ObjectStore> store, std::unique_ptr<TextRecord> last_config,
                        std::unique_ptr<TextRecord> drains) {
  store_ = std::move(store);
  last_config_ = std::move(last_config);
  drains_ = std::move(drains);
  spec_ = spec::make_mesh_spec(
      {.store = *store_,
       .mesh_name = options_.mesh_name,
       .osm_namespace = options_.osm_namespace,
       .cluster_domain = options_.cluster_domain,
       .log = runtime_.log,
       .metrics = runtime_.metrics,
       .kept_config =
           spec::KeptConfigOptions{*last_config_,
                                   daemon::with_executors(runtime_, runtime_.executor, records_)},
       .service_network = options_.service_cidr});
  OSM_TRY(machines_, Machines::start(options_, runtime_, *store_, *spec_, *drains_, records_));
  clusters_ = std::make_unique<RemoteClusters>(options_.remote_clusters, options_.cluster_name,
                                               options_, runtime_);
  OSM_TRY(processes_, RemoteProviders::start(options_.providers, runtime_, options_.trust_domain));
  std::vector<WorkloadProvider*> machines = machines_->workload_providers();
  processes_->add_to(machines);
  all_machines_ = std::make_unique<AllMachines>(std::move(machines));
  return {};
}

std::vector<ProviderEntry> MeshSource::providers() const {
  std::vector<ProviderEntry> out;
  if (pods() != nullptr) out.push_back({.provider = pods()});
  for (const ProviderEntry& machines : machines_->providers()) out.push_back(machines);
  for (const ProviderEntry& cluster : clusters_->providers()) out.push_back(cluster);
  processes_->add_to(out);
  return out;
}

std::vector<WorkloadProvider*> MeshSource::workload_providers() const {
  std::vector<WorkloadProvider*> out = all_machines_->providers();
  if (pods() != nullptr) out.insert(out.begin(), pods());
  return out;
}

namespace {

// A controller that was alone has its record in `file`. The shared one takes it over if it is
// empty; otherwise it wins, because other controllers act on it. The file is kept under another
// name.
Status move_record(const std::string& file, TextRecord& shared, LogSink& log) {
  if (::access(file.c_str(), F_OK) != 0 && errno == ENOENT) return {};
  const auto record = make_file_record(file);
  OSM_TRY(const TextRecord::Text local, record->load());
  OSM_TRY(const TextRecord::Text present, shared.load());
  bool moves = present.text.empty();
  if (moves) {
    // A damaged one would stop every controller.
    if (const auto read = known_ca(*record, kOwnRoot); !read.ok())
      return read.error().with_context(file);
    const Status stored = shared.store({local.text, present.version});
    moves = stored.ok();
    // On a conflict another controller was first.
    if (!moves && stored.error().code != ErrorCode::kConflict) return stored;
  }
  const std::string kept = file + ".old";
  if (std::rename(file.c_str(), kept.c_str()) != 0)
    return Error{ErrorCode::kStorage, file + ": cannot be renamed to " + kept + " (" +
                                          std::generic_category().message(errno) +
                                          "); rename or remove it"};
  log.warning(moves ? "the record of root rotations has moved into etcd"
                    : "the record of root rotations in etcd is in force, not this machine's",
              {{"from", kept}, {"record", shared.name()}});
  return {};
}

// Controllers that share an etcd: they act on one record of root rotations, and each knows what the
// others' proxies use.
class SharedSource : public MeshSource {
 public:
  using MeshSource::MeshSource;

  TextRecord* join_tokens() override { return join_tokens_.get(); }
  ReplicaBoard* board() override { return replicas_.get(); }

  std::vector<Problem> own_problems() const override {
    if (!replicas_) return {};
    const auto known = replicas_->read("roots");
    if (known.ok()) return {};
    return {{.code = known.error().code,
             .object = {},
             .path = "other controllers",
             .field = {},
             .cause = known.error().message}};
  }

 protected:
  etcd::CaStoreOptions access() const {
    etcd::CaStoreOptions etcd = daemon::etcd_of(options_.ca, runtime_);
    etcd.deadline = kEtcdDeadline;
    return etcd;
  }

  // `objects`: the mesh's objects are in this etcd, too.
  Status join_others(bool objects) {
    OSM_TRY(record_, etcd::make_rotation_record(access()));
    OSM_TRY(join_tokens_, etcd::make_join_record(access()));
    OSM_TRY(replicas_,
            etcd::make_replicas({.etcd = access(),
                                 .runtime = daemon::with_executors(runtime_, waiting_, waiting_),
                                 .replica = replica_,
                                 .has_objects = objects}));
    return move_record(options_.state_dir + "/rotation.json", *record_, runtime_.log);
  }

  std::unique_ptr<TextRecord> join_tokens_;

 private:
  static constexpr std::chrono::seconds kEtcdDeadline{2};  // a lease lives 15 s

  // Waits for etcd, which may be away.
  net::Lane waiting_{runtime_.lanes(), {.name = "other controllers in etcd", .watched = true}};
  std::unique_ptr<ReplicaBoard> replicas_;
};

class DirectorySource final : public SharedSource {
 public:
  using SharedSource::SharedSource;

  Status start(daemon::Startup& startup) {
    OSM_TRY(check_mesh_dir(options_.mesh_dir));
    OSM_TRY(auto store,
            spec::make_directory_store(
                {.directory = options_.mesh_dir,
                 .watcher = runtime_.asio(),
                 .runtime = daemon::with_executors(runtime_, runtime_.executor, records_),
                 .first_seen = make_file_record(options_.state_dir + "/first-seen.json")}));
    // The directory is this machine's own, so each controller has a record.
    auto drains = make_file_record(options_.state_dir + "/drained-machines.json");
    if (options_.ca.ca_store == "etcd") {
      OSM_TRY(drains, etcd::make_drain_record(access()));
    }
    OSM_TRY(read(std::move(store), make_file_record(options_.state_dir + "/mesh-config.json"),
                 std::move(drains)));
    if (options_.ca.ca_store == "etcd")
      return startup.wait_for(daemon::kRotationRecord, [this] { return join_others(false); });
    record_ = make_file_record(options_.state_dir + "/rotation.json");
    join_tokens_ = make_file_record(options_.state_dir + "/join-tokens.json");
    return {};
  }
};

class EtcdSource final : public SharedSource {
 public:
  using SharedSource::SharedSource;

  Status start(daemon::Startup& startup) {
    etcd::CaStoreOptions etcd = access();
    etcd.key = options_.mesh_etcd;
    watching_.emplace(runtime_.lanes(),
                      net::LaneOptions{.name = "objects in etcd", .watched = true});
    OSM_TRY(auto store, etcd::make_object_store({.etcd = etcd,
                                                 .runtime = daemon::with_executors(
                                                     runtime_, runtime_.executor, *watching_)}));
    OSM_TRY(auto last_config, etcd::make_config_record(etcd));
    OSM_TRY(writer_, etcd::make_object_writer(etcd));
    OSM_TRY(auto drains, etcd::make_drain_record(access()));
    OSM_TRY(read(std::move(store), std::move(last_config), std::move(drains)));
    make_validator();
    return startup.wait_for(daemon::kRotationRecord, [this] { return join_others(true); });
  }

  spec::ObjectWriter* writer() override { return writer_.get(); }

 private:
  std::unique_ptr<spec::ObjectWriter> writer_;
};

}  // namespace

void MeshSource::make_validator() {
  validator_ = inject::make_validator({.mesh_spec = *spec_,
                                       .metrics = runtime_.metrics,
                                       .osm_namespace = options_.osm_namespace,
                                       .store = store_.get()});
}

Result<std::unique_ptr<MeshSource>> make_directory_source(const Options& options,
                                                          OwnRuntime& runtime,
                                                          daemon::Startup& startup) {
  auto source = std::make_unique<DirectorySource>(options, runtime);
  OSM_TRY(source->start(startup));
  return std::unique_ptr<MeshSource>(std::move(source));
}

Result<std::unique_ptr<MeshSource>> make_etcd_source(const Options& options, OwnRuntime& runtime,
                                                     daemon::Startup& startup) {
  auto source = std::make_unique<EtcdSource>(options, runtime);
  OSM_TRY(source->start(startup));
  return std::unique_ptr<MeshSource>(std::move(source));
}

}  // namespace osm::controller
