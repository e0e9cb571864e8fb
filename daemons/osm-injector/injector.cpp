// The wiring of osm-injector. Constructed top to bottom, destroyed bottom to top.
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/watched_executor.hpp"
#include "ca.hpp"
#include "daemon.hpp"
#include "daemons/version.hpp"
#include "native_sidecars.hpp"
#include "options.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/host/audit_file.hpp"
#include "osm/host/start.hpp"
#include "osm/inject/injector.hpp"
#include "osm/kubernetes/backend.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/net/http_server.hpp"
#include "osm/net/webhook_server.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "process.hpp"
#include "write_secret.hpp"

namespace osm::injector {
namespace {

constexpr std::chrono::milliseconds kCatchUp{2000};
constexpr const char* kService = "osm-injector";
constexpr unsigned kAdmissions = 16;  // each waits for its Secret to be written

class Injector final : public daemon::Daemon {
 public:
  Injector(const Options& options, OwnRuntime& runtime) : options_(options), runtime_(runtime) {}

  ~Injector() override {
    if (roots_) roots_->stop();
  }

  Status start(host::Start& startup) {
    OSM_TRY(start_cluster());
    OSM_TRY(start_certificates(startup));
    OSM_TRY(start_injector(startup));
    return start_servers();
  }

  std::vector<std::pair<const char*, std::string>> facts() const override {
    return {{"webhook_address", webhook_->address().str()}};
  }

  std::vector<Problem> problems() const override {
    std::vector<Problem> problems = spec_->list_problems();
    if (auto silent = daemon::problem_of(*roots_->issuer()))
      problems.insert(problems.begin(), *std::move(silent));
    for (Problem& root : problems_of(roots_->status(), runtime_.clock.wall_now()))
      problems.push_back(std::move(root));
    if (audit_)
      if (auto fault = audit_->problem()) problems.push_back(*std::move(fault));
    if (auto unread = native_sidecars_->problem()) problems.push_back(*std::move(unread));
    const std::lock_guard lock(upkeep_mutex_);
    if (upkeep_)
      for (Problem& problem : upkeep_->problems()) problems.push_back(std::move(problem));
    return problems;
  }

  std::vector<std::string> missing() const override {
    if (stopping_) return {"nothing: the injector is shutting down"};
    if (spec_->has_synced() && !native_sidecars_->has_synced())
      return {"versions of the nodes' kubelets, to be read"};
    if (spec_->has_synced()) return {};
    std::vector<std::string> missing{"namespaces and the MeshConfig, to be read"};
    for (const Problem& problem : spec_->list_problems()) missing.push_back(problem.text());
    return missing;
  }

  std::vector<std::string> hanging() const override {
    const Status reads = reading_.check();
    return reads.ok() ? std::vector<std::string>() : std::vector{reads.error().message};
  }

  void shutdown(std::chrono::milliseconds deadline) override {
    const auto ask_others = std::chrono::steady_clock::now() + options_.shutdown_delay;
    stopping_ = true;
    std::unique_lock lock(upkeep_mutex_);
    upkeep_ = nullptr;
    lock.unlock();
    std::this_thread::sleep_until(ask_others);
    daemon::report(runtime_.log, webhook_->stop(deadline / 2));
    roots_->stop();
  }

 private:
  // For a store of objects.
  Runtime reading() { return daemon::with_executors(runtime_, reading_, runtime_.blocking); }
  // For parts that wait for the API server or for CAs.
  Runtime waiting() { return daemon::with_executors(runtime_, runtime_.executor, waiting_); }
  // As waiting(), for parts that wait on `executor`.
  Runtime upkeep() { return daemon::with_executors(runtime_, waiting_, waiting_); }

  Status start_cluster() {
    OSM_TRY(cluster_, kubernetes::connect({.kubeconfig = options_.kubeconfig,
                                           .environment = daemon::environment(),
                                           .io = runtime_.asio(),
                                           .runtime = runtime_}));
    backend_ = kubernetes::make_backend({.board = {.cluster = *cluster_,
                                                   .runtime = upkeep(),
                                                   .replica = replica_,
                                                   .mesh_name = options_.mesh_name,
                                                   .osm_namespace = options_.osm_namespace},
                                         .objects = reading(),
                                         .injects = true});
    spec_ = spec::make_mesh_spec(
        {.store = *backend_.objects,
         .mesh_name = options_.mesh_name,
         .osm_namespace = options_.osm_namespace,
         .cluster_domain = options_.cluster_domain,
         .log = runtime_.log,
         .metrics = runtime_.metrics,
         .kept_config = {{*backend_.last_mesh_config, waiting(), false}}});  // a reader
    mesh_config_ = host::follow_log_level(*spec_, runtime_.json_log(), options_.log_level);
    return {};
  }

  // The CA that signs for the mesh, as its controllers agreed: the injector issues with it.
  Status start_roots(host::Start& startup) {
    const daemon::LoadCaOptions ca{options_, runtime_, backend_, cluster_.get()};
    OSM_TRY(auto own, startup.wait_for(host::kAuthority, [&] { return daemon::load_ca(ca); }));
    OSM_TRY(board_, backend_.join());
    const RootRotationOptions rotation{
        .runtime = waiting(),
        .spec = *spec_,
        .record = *backend_.root_rotation,
        .board = board_.get(),
        .own = std::move(own),
        .rules = daemon::root_rules(ca),
        .open = [ca](const auto& root) { return daemon::open_root(ca, root); },
        .trust_domain = options_.trust_domain};
    OSM_TRY(roots_,
            startup.wait_for(host::kRotationRecord, [&] { return RootRotation::start(rotation); }));
    return {};
  }

  Status start_certificates(host::Start& startup) {
    OSM_TRY(start_roots(startup));
    if (!options_.audit_log.empty()) {
      OSM_TRY(audit_,
              host::open_audit_file(
                  {.path = options_.audit_log, .setting = "--audit-log", .runtime = runtime_}));
    }
    manager_ = certificate::make_manager(
        {.issuer = roots_->issuer(), .runtime = runtime_, .audit = audit_.get()});
    OSM_TRY(certificate_, startup.wait_for(host::kAuthority, [this] {
      return certificate::KeptCertificate::issue(*manager_,
                                                 webhook_subject(roots_->trust_domains()));
    }));
    const auto follow = [this](const TrustDomains& trust_domains) {
      return certificate_->change_subject(webhook_subject(trust_domains));
    };
    // Steps are taken by a controller, which serves proxies: a board of some topics never leads.
    roots_->follow({.manager = *manager_, .on_trust_domains = follow});
    return {};
  }

  certificate::Subject webhook_subject(const TrustDomains& trust_domains) const {
    return certificate::webhook_subject(trust_domains.signing, kService, options_.osm_namespace);
  }

  Status start_injector(host::Start& startup) {
    OSM_TRY(native_sidecars_, NativeSidecars::start(options_, *cluster_, reading(), startup));
    injector_ = inject::make_injector(
        {.certificates = *manager_,
         .find_namespace = [this](const std::string& name) { return find_namespace(name); },
         .mesh_config = [this] { return mesh_config(); },
         .denials = [this] { return denials_of(spec_->list_policies()); },
         .write_secret =
             [this](const auto& secret) { return write_secret(*cluster_, options_, secret); },
         .runtime = runtime_,
         .limits = options_.limits,
         .waiting_secrets = [this] { return kubernetes::read_waiting_secrets(*board_); },
         .trust_domain = options_.trust_domain,
         .trust_domains = [this] { return roots_->trust_domains(); },
         .mesh_name = options_.mesh_name,
         .osm_namespace = options_.osm_namespace,
         .beside_osm_v1 = options_.beside_osm_v1,
         .version = kVersion,
         .envoy_image = options_.envoy_image,
         .init_container_image = options_.init_container_image,
         .image_pull_policy = options_.image_pull_policy,
         .native_sidecars = [this] { return native_sidecars_->wanted(); },
         .cni = options_.cni,
         .xds = options_.xds});
    return {};
  }

  Status start_servers() {
    const auto review = [this](const net::Request& request) {
      return injector_->review(request.body, request.client);
    };
    OSM_TRY(webhook_, net::start_webhook({.address = options_.listen,
                                          .path = "/mutate-pod-creation",
                                          .review = review,
                                          .certificate = *certificate_,
                                          .client_ca_pem = options_.client_ca_pem,
                                          .runtime = runtime_,
                                          .handlers = admissions_,
                                          .keep_alive = [this] { return !stopping_; }}));
    OSM_TRY(upkeep_,
            kubernetes::start_upkeep({.cluster = *cluster_,
                                      .runtime = upkeep(),
                                      .replica = replica_,
                                      .mesh_name = options_.mesh_name,
                                      .osm_namespace = options_.osm_namespace,
                                      .mutating_webhook = kubernetes::WebhookUpkeep{manager_.get()},
                                      .beside_osm_v1 = options_.beside_osm_v1}));
    return {};
  }

  // A namespace that is not known here may be a moment old, since the API server says it is ours.
  Result<inject::InjectionNamespace> find_namespace(const std::string& name) {
    const ObjectKey key{kinds::kNamespace, "", name};
    auto found = backend_.objects->get(key);
    if (!found && !backend_.objects->catch_up(key, kCatchUp))
      return Error{ErrorCode::kUnavailable,
                   "Namespace " + name + ": the API server does not say what it is: try again"};
    if (!found) found = backend_.objects->get(key);
    // The API server asks about namespaces of the mesh only. One that is still not known was taken
    // out just now, or this replica has not read a restored cluster yet.
    if (!found)
      return Error{ErrorCode::kUnavailable,
                   "Namespace " + name + ": it is not known to be in the mesh: try again"};
    return inject::InjectionNamespace{name, found->labels, found->annotations};
  }

  Result<MeshConfig> mesh_config() {
    if (spec_->has_synced()) return spec_->get_mesh_config();
    return Error{ErrorCode::kNotReady, "the MeshConfig has not been read yet: try again"};
  }

  const Options options_;
  OwnRuntime& runtime_;
  const std::string replica_ = host::replica_name(runtime_.rng);
  std::atomic<bool> stopping_{false};
  net::Lane admissions_{
      runtime_.lanes(),
      {.name = "admissions", .bound = kAdmissions, .watched = true, .metrics = &runtime_.metrics}};
  WatchedExecutor reading_{"objects of the mesh", runtime_.executor, runtime_.clock};
  // Two for the upkeep, one each for the replicas' board, the root rotation and the last
  // MeshConfig.
  net::Lane waiting_{
      runtime_.lanes(),
      {.name = "webhook configuration, Lease and roots", .bound = 5, .watched = true}};

  std::unique_ptr<kubernetes::Cluster> cluster_;
  Backend backend_;
  std::unique_ptr<MeshSpec> spec_;
  Subscription mesh_config_;
  std::unique_ptr<ReplicaBoard> board_;  // controllers wait until this replica acts on the record
  std::unique_ptr<RootRotation> roots_;
  std::unique_ptr<host::AuditFile> audit_;  // null: none is wanted
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<certificate::KeptCertificate> certificate_;
  std::unique_ptr<NativeSidecars> native_sidecars_;
  std::unique_ptr<inject::Injector> injector_;
  std::unique_ptr<net::HttpServer> webhook_;
  mutable std::mutex upkeep_mutex_;  // monitoring asks it while the injector ends
  std::unique_ptr<kubernetes::Upkeep> upkeep_;
};

// Starts everything; it is ready once pods can be injected. Failure: what is wrong and what to do.
// Blocking: until the API server has answered and the CA has signed.
Result<std::unique_ptr<daemon::Daemon>> start(const Options& options, OwnRuntime& runtime,
                                              host::Start& startup) {
  auto injector = std::make_unique<Injector>(options, runtime);
  OSM_TRY(injector->start(startup));
  return std::unique_ptr<daemon::Daemon>(std::move(injector));
}

}  // namespace
}  // namespace osm::injector

int main(int argc, char** argv) {
  osm::injector::Options options;
  if (const int code = osm::injector::parse_options(argc, argv, options); code >= 0) return code;
  return osm::daemon::run({"osm-injector", options.log_level, options.http_address},
                          [&](osm::OwnRuntime& runtime, osm::host::Start& startup) {
                            return osm::injector::start(options, runtime, startup);
                          });
}
