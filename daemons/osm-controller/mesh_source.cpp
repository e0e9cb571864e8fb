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
#include "osm/runtime/threads.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "state_dir.hpp"

namespace osm::controller {

void MeshSource::read(std::unique_ptr<ObjectStore> store, std::unique_ptr<TextRecord> last_config) {
  store_ = std::move(store);
  last_config_ = std::move(last_config);
  spec_ =
      spec::make_mesh_spec({.store = *store_,
                            .mesh_name = options_.mesh_name,
                            .osm_namespace = options_.osm_namespace,
                            .log = runtime_.log,
                            .metrics = runtime_.metrics,
                            .kept_config = spec::KeptConfigOptions{
                                *last_config_, daemon::with_executors(runtime_, runtime_.executor,
                                                                      keeping_.executor())}});
  vms_ = vm::make_vm_provider({.store = *store_,
                               .mesh_spec = *spec_,
                               .trust_domain = options_.trust_domain,
                               .log = runtime_.log,
                               .metrics = runtime_.metrics});
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

class DirectorySource final : public MeshSource {
 public:
  using MeshSource::MeshSource;

  Status start() {
    OSM_TRY(check_mesh_dir(options_.mesh_dir));
    OSM_TRY(auto store,
            spec::make_directory_store(
                {.directory = options_.mesh_dir, .watcher = runtime_.asio(), .runtime = runtime_}));
    // The directory is this machine's own, so each controller has a record.
    read(std::move(store), make_file_record(options_.state_dir + "/mesh-config.json"));
    const std::string file = options_.state_dir + "/rotation.json";
    if (options_.ca.ca_store == "etcd") return join_others(file);
    record_ = make_file_record(file);
    return {};
  }

  ReplicaBoard* board() override { return replicas_.get(); }
  bool leads() const override { return !replicas_ || replicas_->leads(); }

  std::vector<Problem> problems() const override {
    if (!replicas_) return {};
    const auto known = replicas_->read("roots");
    if (known.ok()) return {};
    return {{.code = known.error().code,
             .object = {},
             .path = "other controllers",
             .field = {},
             .cause = known.error().message}};
  }

 private:
  // Controllers that share a CA act on one record, and each knows what the others' proxies use.
  Status join_others(const std::string& file) {
    etcd::CaStoreOptions etcd = daemon::etcd_of(options_.ca, runtime_);
    etcd.deadline = kEtcdDeadline;
    OSM_TRY(record_, etcd::make_rotation_record(etcd));
    OSM_TRY(replicas_, etcd::make_replicas({.etcd = etcd,
                                            .runtime = daemon::with_executors(
                                                runtime_, waiting_.executor(), waiting_.executor()),
                                            .replica = replica_}));
    return move_record(file, *record_, runtime_.log);
  }

  static constexpr std::chrono::seconds kEtcdDeadline{2};  // a lease lives 15 s

  net::Threads waiting_{1};  // waits for etcd, which may be away
  std::unique_ptr<etcd::Replicas> replicas_;
};

}  // namespace

Result<std::unique_ptr<MeshSource>> make_directory_source(const Options& options,
                                                          OwnRuntime& runtime) {
  auto source = std::make_unique<DirectorySource>(options, runtime);
  OSM_TRY(source->start());
  return std::unique_ptr<MeshSource>(std::move(source));
}

}  // namespace osm::controller
