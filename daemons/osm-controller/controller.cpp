// The wiring of osm-controller: which rooms there are and what each is given. Constructed top to
// bottom, destroyed bottom to top.
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "ca.hpp"
#include "daemon.hpp"
#include "daemons/version.hpp"
#include "join_server.hpp"
#include "mesh.hpp"
#include "mesh_upkeep.hpp"
#include "options.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/host/audit_file.hpp"
#include "osm/host/stale_replica.hpp"
#include "osm/host/start.hpp"
#include "osm/host/state_dir.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/net/http_server.hpp"
#include "osm/net/ports.hpp"
#include "osm/runtime/grpc_log.hpp"
#include "osm/runtime/lanes.hpp"
#include "reconciler.hpp"

namespace osm::controller {
namespace {

// Streams end within three quarters of it (ControlPlane::shutdown). With --shutdown-delay and the
// rest of the end it fits into the chart's terminationGracePeriodSeconds.
constexpr std::chrono::seconds kEndOfStreams{16};

class Controller final : public daemon::Daemon {
 public:
  Controller(const Options& options, host::StateDir state, OwnRuntime& runtime)
      : options_(options), state_(std::move(state)), runtime_(runtime) {}

  ~Controller() override {
    if (roots_) roots_->stop();
    // The upkeep uses the control plane, and its servers the manager of certificates.
    if (!upkeep_) return;
    upkeep_->stop();
    upkeep_->stop_servers(std::chrono::milliseconds(0));
  }

  Status start(host::Start& startup) {
    for (const auto step : {&Controller::start_mesh, &Controller::start_certificates,
                            &Controller::start_control_plane, &Controller::start_servers})
      OSM_TRY((this->*step)(startup));
    return {};
  }

  std::vector<std::pair<const char*, std::string>> facts() const override {
    return {{"mesh", mesh_->backend().objects_in},
            {"state_dir", options_.state_dir},
            {"ads_address", control_plane_->ads_address()},
            {"admin_address", admin_->address().str()}};
  }

  std::vector<std::string> missing() const override { return missing(control_plane_->status()); }
  std::vector<std::string> hanging() const override {
    std::vector<std::string> parts = control_plane_->status().hanging;
    if (const Status reads = mesh_->reads(); !reads.ok()) parts.push_back(reads.error().message);
    return parts;
  }

  std::optional<host::MeshVersion> mesh() const override {
    const ControlPlaneStatus status = control_plane_->status();
    return host::MeshVersion{.replica = mesh_->backend().replica,
                             .generation = status.generation,
                             .hash = status.mesh_hash,
                             .stale = stale_->stale(),
                             .admits = missing(status).empty() && !status.full};
  }

  // Objects that are left out, a CA that does not sign, an audit log that cannot be written. None
  // makes the controller not ready: certificates that were signed before stay in use.
  std::vector<Problem> problems() const override {
    std::vector<Problem> problems = control_plane_->status().problems;
    if (upkeep_)
      for (Problem& problem : upkeep_->problems()) problems.push_back(std::move(problem));
    for (Problem& problem : mesh_->problems()) problems.push_back(std::move(problem));
    if (auto silent = daemon::problem_of(*signer_))
      problems.insert(problems.begin(), *std::move(silent));
    if (audit_)
      if (auto fault = audit_->problem()) problems.push_back(*std::move(fault));
    return problems;
  }

  void shutdown(std::chrono::milliseconds deadline) override {
    const auto ask_others = std::chrono::steady_clock::now() + options_.shutdown_delay;
    stopping_ = true;  // not ready, while everything is served
    roots_->stop();
    if (upkeep_) upkeep_->stop();
    // A proxy whose stream ended earlier could come back here.
    if (upkeep_) std::this_thread::sleep_until(ask_others);
    daemon::report(runtime_.log, control_plane_->shutdown(kEndOfStreams));
    daemon::report(runtime_.log, admin_->stop(deadline / 8));
    daemon::report(runtime_.log, join_->stop(deadline / 8));
    if (upkeep_) upkeep_->stop_servers(deadline / 4);
  }

 private:
  Status start_mesh(host::Start& startup) {
    OSM_TRY(mesh_, Mesh::start(options_, runtime_, startup));
    OSM_TRY(stale_, host::StaleReplicaGuard::start({.board = mesh_->board(),
                                                    .replica = mesh_->backend().replica,
                                                    .runtime = runtime_,
                                                    .stale_after = options_.stale_after}));
    mesh_config_ = host::follow_log_level(mesh_->spec(), runtime_.json_log(), options_.log_level);
    return {};
  }

  Status start_certificates(host::Start& startup) {
    const daemon::LoadCaOptions ca{options_, runtime_, mesh_->backend(), mesh_->cluster()};
    OSM_TRY(auto own, startup.wait_for(host::kAuthority, [&] { return daemon::load_ca(ca); }));
    const RootRotationOptions rotation{
        .runtime = daemon::with_executors(runtime_, runtime_.executor, rotating_),
        .spec = mesh_->spec(),
        .record = *mesh_->backend().root_rotation,
        .board = mesh_->board(),
        .own = std::move(own),
        .rules = daemon::root_rules(ca),
        .open = [ca](const AllowedRoot& root) { return daemon::open_root(ca, root); },
        .trust_domain = options_.trust_domain,
        .proxy_recall_interval = options_.proxy_recall_interval,
        .max_wait = options_.rotation_max_wait};
    OSM_TRY(roots_,
            startup.wait_for(host::kRotationRecord, [&] { return RootRotation::start(rotation); }));
    auto issuer = roots_->issuer();
    signer_ = issuer.get();
    if (!options_.audit_log.empty()) {
      OSM_TRY(audit_,
              host::open_audit_file(
                  {.path = options_.audit_log, .setting = "--audit-log", .runtime = runtime_}));
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

  Status start_control_plane(host::Start& startup) {
    // The control plane shows this certificate. It is kept here until the control plane keeps it.
    OSM_TRY(const auto first, startup.wait_for(host::kAuthority, [this] {
      return certificate::KeptCertificate::issue(
          *manager_, certificate::controller_subject(roots_->trust_domains().controller,
                                                     options_.osm_namespace));
    }));
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
                                 .replica = mesh_->backend().replica,
                                 .rebalance = options_.rebalance,
                                 .drained = &mesh_->drained(),
                                 .admits = [this] { return stale_->admits(); }}));
    if (options_.on_kubernetes()) {
      OSM_TRY(upkeep_,
              MeshUpkeep::start({options_, runtime_, *mesh_, *control_plane_, *manager_, *roots_},
                                startup));
    }
    roots_->follow(upkeep_ ? upkeep_->participants() : RotationParticipants{.manager = *manager_});
    return {};
  }

  Status start_servers(host::Start& startup) {
    net::AdminApiOptions api{.runtime = runtime_,
                             .control_plane = *control_plane_,
                             .spec = mesh_->spec(),
                             .certificates = *manager_,
                             .store = mesh_->backend().objects.get(),
                             .workloads = &mesh_->machines(),
                             .writer = mesh_->backend().writer.get(),
                             .validator = mesh_->validator(),
                             .objects_in = mesh_->backend().objects_in,
                             .root_rotation = roots_.get(),
                             .join_tokens = mesh_->backend().join_tokens.get(),
                             .drained = &mesh_->drained(),
                             .problems = [this] { return problems(); },
                             .version = kVersion,
                             .commit = kCommit};
    OSM_TRY(join_, startup.wait_for(host::kAuthority, [&] {
      return JoinServer::start(options_, runtime_, *manager_, roots_->trust_domains().signing, api);
    }));
    const net::Handler admin_api = net::make_admin_api(api);
    OSM_TRY(admin_, net::HttpServer::start(
                        net::kAdminSocket.options({.unix_path = state_.file("admin.sock")}),
                        runtime_.asio(), administering_, admin_api, runtime_.log));
    if (upkeep_) OSM_TRY(upkeep_->serve_admin(admin_api));
    if (net::Address reached = options_.replica_address; !reached.host.empty()) {
      reached.port = startup.http_address()->port;
      stale_->announce(reached);
    }
    return {};
  }

  // Reasons not to be ready, with the unreadable files, since those are to be mended.
  std::vector<std::string> missing(const ControlPlaneStatus& status) const {
    if (stopping_) return {"nothing: the controller is shutting down"};
    std::vector<std::string> missing = status.waiting_for;
    if (const Status admits = stale_->admits(); !admits.ok())
      missing.push_back(admits.error().message);
    if (missing.empty()) return missing;
    for (const Problem& problem : mesh_->backend().objects->list_problems())
      missing.push_back(problem.text());
    return missing;
  }

  const Options options_;
  const host::StateDir state_;
  OwnRuntime& runtime_;
  const Subscription grpc_log_ = route_grpc_log(runtime_.log, runtime_.clock);
  std::atomic<bool> stopping_{false};

  // Waits for the CAs of a rotation: issuing must not wait with it.
  net::Lane rotating_{runtime_.lanes(), {.name = "root rotation", .watched = true}};

  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<host::StaleReplicaGuard> stale_;
  Subscription mesh_config_;
  std::unique_ptr<RootRotation> roots_;
  const certificate::Issuer* signer_ = nullptr;  // the manager's
  std::unique_ptr<host::AuditFile> audit_;       // null: none is wanted
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<ControlPlane> control_plane_;
  std::unique_ptr<MeshUpkeep> upkeep_;  // null: not on Kubernetes
  // Waits for stores and CAs, whose own work is on `blocking`.
  net::Lane administering_{runtime_.lanes(), {.name = "admin", .bound = 4}};
  std::unique_ptr<net::HttpServer> admin_;
  std::unique_ptr<JoinServer> join_;
};

// Starts everything; the mesh is served once it is synced, which readiness tells.
// Failure: what is wrong and what to do, of the room it happened in. Blocking: until the API server
// or etcd has answered, and the CA has signed.
Result<std::unique_ptr<daemon::Daemon>> start(const Options& options, OwnRuntime& runtime,
                                              host::Start& startup) {
  OSM_TRY(auto state,
          host::StateDir::lock(
              {.path = options.state_dir, .program = "osm-controller", .setting = "--state-dir"}));
  auto controller = std::make_unique<Controller>(options, std::move(state), runtime);
  OSM_TRY(controller->start(startup));
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
  return osm::daemon::run({"osm-controller", options.log_level, options.http_address},
                          [&](osm::OwnRuntime& runtime, osm::host::Start& startup) {
                            if (options.reconcile_only)
                              return osm::controller::start_reconciler(options, runtime);
                            return osm::controller::start(options, runtime, startup);
                          });
}
