// The wiring of osm-controller: which rooms there are and what each is given. Constructed top to
// bottom, destroyed bottom to top.
#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "audit_log.hpp"
#include "base/log_limit.hpp"
#include "ca.hpp"
#include "daemon.hpp"
#include "daemons/version.hpp"
#include "freshness_watch.hpp"
#include "http_side.hpp"
#include "mesh_source.hpp"
#include "options.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/net/http_server.hpp"
#include "osm/runtime/threads.hpp"
#include "reconciler.hpp"
#include "state_dir.hpp"

namespace osm::controller {
namespace {

// gRPC's own lines (failed handshakes, mostly) as lines of the daemon's log, not beside it. gRPC's
// log function is one per process: so is this. Outlives everything that uses gRPC.
class GrpcLog {
 public:
  GrpcLog(LogSink& log, const Clock& clock) : log_(log), clock_(clock) {
    present = this;
    gpr_set_log_function([](gpr_log_func_args* line) {
      if (GrpcLog* const self = present) self->write(*line);
    });
  }
  ~GrpcLog() {
    gpr_set_log_function(nullptr);
    present = nullptr;
  }
  GrpcLog(const GrpcLog&) = delete;

 private:
  // Most errors of gRPC are failed handshakes of foreign clients: they are warnings here, and
  // bounded, since anybody can cause them.
  void write(const gpr_log_func_args& line) {
    if (line.severity != GPR_LOG_SEVERITY_ERROR)
      return log_.debug("gRPC", {{"detail", line.message}});
    std::unique_lock lock(mutex_);
    // Each statement of gRPC has a limit of its own, so that frequent lines hide no rare ones.
    const auto [limit, fresh] = limits_.try_emplace({line.file, line.line}, clock_);
    const auto left_out = limit->second.admit();
    lock.unlock();
    if (left_out)
      log_.warning("gRPC", {{"detail", line.message}, {"left_out", std::to_string(*left_out)}});
  }

  static inline std::atomic<GrpcLog*> present{nullptr};

  LogSink& log_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, LogLimit> limits_;  // guarded by mutex_
};

class Controller final : public daemon::Daemon {
 public:
  Controller(const Options& options, StateDir state, OwnRuntime& runtime)
      : options_(options), state_(std::move(state)), runtime_(runtime) {}

  ~Controller() override {
    if (roots_) roots_->stop();
    // The source's upkeep uses the control plane, which is destroyed first.
    if (mesh_) mesh_->stop_upkeep();
  }

  Status start() {
    for (const auto step : {&Controller::start_mesh, &Controller::start_certificates,
                            &Controller::start_control_plane, &Controller::start_servers})
      OSM_TRY((this->*step)());
    return {};
  }

  std::vector<std::pair<const char*, std::string>> facts() const override {
    return {{"mesh", options_.on_kubernetes() ? "kubernetes" : options_.mesh_dir},
            {"state_dir", options_.state_dir},
            {"ads_address", control_plane_->ads_address()},
            {"http_address", http_->address().str()},
            {"admin_address", admin_->address().str()}};
  }

  void shutdown(std::chrono::milliseconds deadline) override {
    const auto ask_others = std::chrono::steady_clock::now() + options_.shutdown_delay;
    stopping_ = true;  // not ready, while streams end
    roots_->stop();
    mesh_->stop_upkeep();
    daemon::report(runtime_.log, control_plane_->shutdown(deadline / 2));
    daemon::report(runtime_.log, admin_->stop(deadline / 8));
    mesh_->stop_webhook(ask_others, deadline / 4);
    daemon::report(runtime_.log, http_->stop(deadline / 8));
  }

 private:
  Status start_mesh() {
    OSM_TRY(mesh_, options_.on_kubernetes() ? make_kubernetes_source(options_, runtime_)
                                            : make_directory_source(options_, runtime_));
    freshness_ =
        std::make_unique<FreshnessWatch>(FreshnessOptions{.board = mesh_->board(),
                                                          .replica = mesh_->replica(),
                                                          .runtime = runtime_,
                                                          .stale_after = options_.stale_after});
    mesh_config_ = daemon::follow_log_level(mesh_->spec(), runtime_, options_.log_level);
    return {};
  }

  // For a CA in this directory, where the mesh is not on Kubernetes.
  daemon::LoadCaOptions ca(const std::string& directory) const {
    return {.options = options_,
            .runtime = runtime_,
            .record = mesh_->rotation_record(),
            .cluster = mesh_->cluster(),
            .directory = mesh_->cluster() ? "" : state_.file(directory)};
  }

  Status start_certificates() {
    OSM_TRY(auto own, daemon::load_ca(ca("ca")));
    OSM_TRY(roots_, RootRotation::start({.runtime = daemon::with_executors(
                                             runtime_, runtime_.executor, rotating_.executor()),
                                         .spec = mesh_->spec(),
                                         .record = mesh_->rotation_record(),
                                         .board = mesh_->board(),
                                         .own = std::move(own),
                                         .make_issuer =
                                             [this](const auto& root) {
                                               return daemon::make_root(ca("roots/" + root.name),
                                                                        root);
                                             },
                                         .trust_domain = options_.trust_domain,
                                         .proxy_recall_interval = options_.proxy_recall_interval,
                                         .max_wait = options_.rotation_max_wait}));
    auto issuer = roots_->issuer();
    signer_ = issuer.get();
    if (!options_.audit_log.empty()) {
      OSM_TRY(audit_, daemon::AuditLog::open(options_.audit_log, runtime_));
    }
    manager_ = certificate::make_manager(
        {.issuer = std::move(issuer),
         .runtime = runtime_,
         .key_parameters =
             [this] {
               const MeshConfig config = mesh_->spec().get_mesh_config();
               return certificate::KeyParameters{config.certificates.key_type,
                                                 config.certificates.rsa_bits};
             },
         .audit = audit_.get()});
    return {};
  }

  Status start_control_plane() {
    OSM_TRY(control_plane_,
            ControlPlane::start({.spec = mesh_->spec(),
                                 .providers = mesh_->providers(),
                                 .workload_providers = mesh_->workload_providers(),
                                 .certificates = *manager_,
                                 .runtime = runtime_,
                                 .accept_osm_v1_identities = options_.beside_osm_v1,
                                 .osm_namespace = options_.osm_namespace,
                                 .ads_address = options_.ads_address.str(),
                                 .ads_connections = options_.ads_connections,
                                 .root_rotation = roots_.get(),
                                 .max_transport_bytes = options_.ads_memory_mb << 20,
                                 .board = mesh_->board(),
                                 .replica = mesh_->replica(),
                                 .admits = [this] { return freshness_->state().admits(); }}));
    OSM_TRY(mesh_->start_upkeep(*control_plane_, *manager_, *roots_));
    roots_->follow({.manager = *manager_,
                    .leads = [this] { return mesh_->leads(); },
                    .kept_lag = [this] { return mesh_->kept_lag(); },
                    .on_trust_domains =
                        [this](const TrustDomains& trust_domains) {
                          return mesh_->set_trust_domains(trust_domains);
                        }});
    return {};
  }

  Status start_servers() {
    OSM_TRY(admin_,
            net::HttpServer::start({.listen = {.unix_path = state_.file("admin.sock")}},
                                   runtime_.asio(), runtime_.blocking,
                                   net::make_admin_api({.runtime = runtime_,
                                                        .control_plane = *control_plane_,
                                                        .spec = mesh_->spec(),
                                                        .certificates = *manager_,
                                                        .store = &mesh_->store(),
                                                        .workloads = &mesh_->machines(),
                                                        .root_rotation = roots_.get(),
                                                        .problems = [this] { return problems(); },
                                                        .version = kVersion,
                                                        .commit = kCommit}),
                                   runtime_.log));
    // The last, since who is told that all is ready may ask the others.
    OSM_TRY(http_, daemon::start_http_side(
                       {.address = options_.http_address,
                        .runtime = runtime_,
                        .missing = [this] { return missing(control_plane_->status()); },
                        .problems = [this] { return problems(); },
                        .mesh = [this] { return mesh_version(); }}));
    if (net::Address reached = options_.replica_address; !reached.host.empty()) {
      reached.port = http_->address().port;
      freshness_->announce(reached);
    }
    return {};
  }

  daemon::MeshVersion mesh_version() const {
    const ControlPlaneStatus status = control_plane_->status();
    return {.replica = mesh_->replica(),
            .generation = status.generation,
            .hash = status.mesh_hash,
            .stale = freshness_->state().stale(),
            .admits = missing(status).empty() && !status.full};
  }

  // Objects that are left out, a CA that does not sign, an audit log that cannot be written. None
  // makes the controller not ready: certificates that were signed before stay in use.
  std::vector<Problem> problems() const {
    std::vector<Problem> problems = control_plane_->status().problems;
    for (Problem& problem : mesh_->problems()) problems.push_back(std::move(problem));
    if (const Status signs = signer_->health(); !signs.ok())
      problems.insert(problems.begin(), {.code = signs.error().code,
                                         .object = {},
                                         .path = "certificate authority",
                                         .field = {},
                                         .cause = signs.error().message});
    if (audit_)
      if (auto fault = audit_->problem()) problems.push_back(*std::move(fault));
    return problems;
  }

  // Reasons not to be ready, with the unreadable files, since those are to be mended.
  std::vector<std::string> missing(const ControlPlaneStatus& status) const {
    if (stopping_) return {"nothing: the controller is shutting down"};
    std::vector<std::string> missing = status.waiting_for;
    if (const Status admits = freshness_->state().admits(); !admits.ok())
      missing.push_back(admits.error().message);
    if (missing.empty()) return missing;
    for (const Problem& problem : mesh_->store().list_problems()) missing.push_back(problem.text());
    return missing;
  }

  const Options options_;
  const StateDir state_;
  OwnRuntime& runtime_;
  const GrpcLog grpc_log_{runtime_.log, runtime_.clock};
  std::atomic<bool> stopping_{false};

  net::Threads rotating_{1};  // waits for the CAs of a rotation: issuing must not wait with it

  std::unique_ptr<MeshSource> mesh_;
  std::unique_ptr<FreshnessWatch> freshness_;
  Subscription mesh_config_;
  std::unique_ptr<RootRotation> roots_;
  const certificate::Issuer* signer_ = nullptr;  // the manager's
  std::unique_ptr<daemon::AuditLog> audit_;      // null: none is wanted
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<ControlPlane> control_plane_;
  std::unique_ptr<net::HttpServer> http_;
  std::unique_ptr<net::HttpServer> admin_;
};

// Starts everything; the mesh is served once it is synced, which readiness tells.
// Failure: what is wrong and what to do, of the room it happened in. Blocking: briefly.
Result<std::unique_ptr<daemon::Daemon>> start(const Options& options, OwnRuntime& runtime) {
  OSM_TRY(StateDir state, StateDir::lock(options.state_dir));
  auto controller = std::make_unique<Controller>(options, std::move(state), runtime);
  OSM_TRY(controller->start());
  return std::unique_ptr<daemon::Daemon>(std::move(controller));
}

}  // namespace
}  // namespace osm::controller

int main(int argc, char** argv) {
  osm::controller::Options options;
  if (const int code = osm::controller::parse_options(argc, argv, options); code >= 0) return code;
  // Debian's Abseil looks for cycles of gRPC's mutexes under one global lock, which took 20 to 27 %
  // of the CPU while 10,000 proxies connected.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return osm::daemon::run("osm-controller", options.log_level, [&](osm::OwnRuntime& runtime) {
    if (options.reconcile_only) return osm::controller::start_reconciler(options, runtime);
    return osm::controller::start(options, runtime);
  });
}
