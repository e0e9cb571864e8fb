// The wiring of osm-injector. Constructed top to bottom, destroyed bottom to top.
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "audit_log.hpp"
#include "ca.hpp"
#include "daemon.hpp"
#include "daemons/version.hpp"
#include "http_side.hpp"
#include "options.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/inject/injector.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/net/http_server.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "process.hpp"
#include "webhook.hpp"

namespace osm::injector {
namespace {

// Each admission waits for its Secret to be written.
constexpr unsigned kAdmissionThreads = 16;
// Two for the upkeep, one each for the replicas' board, the root rotation and the last MeshConfig.
constexpr unsigned kUpkeepThreads = 5;
constexpr std::chrono::milliseconds kCatchUp{2000};
constexpr int kNativeSidecarsSince = 29;
constexpr const char* kService = "osm-injector";

class Injector final : public daemon::Daemon {
 public:
  Injector(const Options& options, OwnRuntime& runtime) : options_(options), runtime_(runtime) {}

  ~Injector() override {
    if (roots_) roots_->stop();
  }

  Status start() {
    for (const auto step : {&Injector::start_cluster, &Injector::start_certificates,
                            &Injector::start_injector, &Injector::start_servers})
      OSM_TRY((this->*step)());
    return {};
  }

  std::vector<std::pair<const char*, std::string>> facts() const override {
    return {{"webhook_address", webhook_->address().str()},
            {"http_address", http_->address().str()}};
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
    daemon::report(runtime_.log, http_->stop(deadline / 4));
  }

 private:
  Status start_cluster() {
    OSM_TRY(cluster_, kubernetes::connect({.kubeconfig = options_.kubeconfig,
                                           .environment = daemon::environment(),
                                           .io = runtime_.asio(),
                                           .runtime = runtime_}));
    store_ = kubernetes::make_store(
        {.cluster = *cluster_,
         .runtime = runtime_,
         .mesh_name = options_.mesh_name,
         .osm_namespace = options_.osm_namespace,
         .kinds = spec::mesh_kinds({kinds::kNamespace, kinds::kMeshConfig,
                                    kinds::kMeshRootCertificate, kinds::kDenylist}),
         .workloads = false});
    last_config_ = kubernetes::make_mesh_config_record(*cluster_, options_.osm_namespace);
    const Runtime waiting =
        daemon::with_executors(runtime_, runtime_.executor, upkeep_threads_.executor());
    spec_ = spec::make_mesh_spec({.store = *store_,
                                  .mesh_name = options_.mesh_name,
                                  .osm_namespace = options_.osm_namespace,
                                  .log = runtime_.log,
                                  .metrics = runtime_.metrics,
                                  .kept_config = {{*last_config_, waiting, false}}});  // a reader
    mesh_config_ = daemon::follow_log_level(*spec_, runtime_, options_.log_level);
    return {};
  }

  // The CA that signs for the mesh, as its controllers agreed: the injector issues with it.
  Status start_roots() {
    record_ = kubernetes::make_rotation_record(*cluster_, options_.osm_namespace);
    const daemon::LoadCaOptions ca{options_, runtime_, *record_, cluster_.get()};
    Executor& waiting = upkeep_threads_.executor();
    OSM_TRY(auto own, daemon::load_ca(ca));
    OSM_TRY(board_, kubernetes::make_replica_board(
                        {.cluster = *cluster_,
                         .runtime = daemon::with_executors(runtime_, waiting, waiting),
                         .replica = replica_,
                         .mesh_name = options_.mesh_name,
                         .osm_namespace = options_.osm_namespace,
                         .topics = {"roots"}}));
    OSM_TRY(roots_,
            RootRotation::start(
                {.runtime = daemon::with_executors(runtime_, runtime_.executor, waiting),
                 .spec = *spec_,
                 .record = *record_,
                 .board = board_.get(),
                 .own = std::move(own),
                 .make_issuer = [ca](const auto& root) { return daemon::make_root(ca, root); },
                 .trust_domain = options_.trust_domain}));
    return {};
  }

  Status start_certificates() {
    OSM_TRY(start_roots());
    if (!options_.audit_log.empty()) {
      OSM_TRY(audit_, daemon::AuditLog::open(options_.audit_log, runtime_));
    }
    manager_ = certificate::make_manager(
        {.issuer = roots_->issuer(), .runtime = runtime_, .audit = audit_.get()});
    OSM_TRY(certificate_, certificate::KeptCertificate::issue(
                              *manager_, webhook_subject(roots_->trust_domains())));
    const auto follow = [this](const TrustDomains& trust_domains) {
      return certificate_->change_subject(webhook_subject(trust_domains));
    };
    // Steps are taken by a controller, which serves proxies.
    roots_->follow(
        {.manager = *manager_, .leads = [] { return false; }, .on_trust_domains = follow});
    return {};
  }

  certificate::Subject webhook_subject(const TrustDomains& trust_domains) const {
    return certificate::webhook_subject(trust_domains.signing, kService, options_.osm_namespace);
  }

  Status start_injector() {
    OSM_TRY(const bool native, has_native_sidecars());
    injector_ = inject::make_injector(
        {.certificates = *manager_,
         .find_namespace = [this](const std::string& name) { return find_namespace(name); },
         .mesh_config = [this] { return mesh_config(); },
         .denials = [this] { return denials_of(spec_->list_policies()); },
         .write_secret = [this](const auto& secret) { return write_secret(secret); },
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
         .native_sidecars = native});
    return {};
  }

  Status start_servers() {
    const auto review = [this](const net::Request& request) {
      return injector_->review(request.body, request.client);
    };
    OSM_TRY(webhook_, daemon::start_webhook({.address = options_.listen,
                                             .path = "/mutate-pod-creation",
                                             .review = review,
                                             .certificate = *certificate_,
                                             .client_ca_pem = options_.client_ca_pem,
                                             .runtime = runtime_,
                                             .handlers = admissions_.executor()}));
    OSM_TRY(upkeep_, kubernetes::start_upkeep(
                         {.cluster = *cluster_,
                          .runtime = daemon::with_executors(runtime_, upkeep_threads_.executor(),
                                                            upkeep_threads_.executor()),
                          .replica = replica_,
                          .mesh_name = options_.mesh_name,
                          .osm_namespace = options_.osm_namespace,
                          .mutating_webhook = kubernetes::WebhookUpkeep{manager_.get()},
                          .beside_osm_v1 = options_.beside_osm_v1}));
    OSM_TRY(http_, daemon::start_http_side({.address = options_.http_address,
                                            .runtime = runtime_,
                                            .missing = [this] { return missing(); },
                                            .problems = [this] { return problems(); }}));
    return {};
  }

  Result<bool> has_native_sidecars() {
    if (options_.native_sidecars) return *options_.native_sidecars;
    const auto minor = kubernetes::server_minor_version(*cluster_);
    if (minor.ok()) return *minor >= kNativeSidecarsSince;
    return Error{minor.error().code,
                 minor.error().message + "; --native-sidecars on or off goes without it"};
  }

  // One that is not known here may be a moment old: the API server, which asks, says that it is the
  // mesh's.
  Result<inject::InjectionNamespace> find_namespace(const std::string& name) {
    const ObjectKey key{kinds::kNamespace, "", name};
    auto found = store_->get(key);
    if (!found && !store_->catch_up(kCatchUp))
      return Error{ErrorCode::kUnavailable,
                   "Namespace " + name + ": the API server does not say what it is: try again"};
    if (!found) found = store_->get(key);
    if (!found) return inject::InjectionNamespace{name, {}, {}};
    return inject::InjectionNamespace{name, found->labels, found->annotations};
  }

  Result<MeshConfig> mesh_config() {
    if (spec_->has_synced()) return spec_->get_mesh_config();
    return Error{ErrorCode::kNotReady, "the MeshConfig has not been read yet: try again"};
  }

  Status write_secret(const inject::BootstrapSecret& secret) {
    kubernetes::Secret object{.ns = secret.ns,
                              .name = secret.name,
                              .labels = secret.labels,
                              .annotations = secret.annotations};
    for (const inject::BootstrapFile& file : secret.files)
      object.data[file.name] = SecretBytes(file.content);
    Status created = kubernetes::create_secret(*cluster_, object);
    if (created.ok() || created.error().code == ErrorCode::kAlreadyExists) return {};
    if (created.error().code != ErrorCode::kPermissionDenied) return created;
    return Error{ErrorCode::kPermissionDenied, created.error().message +
                                                   "; allow it by `kubectl apply -n " + secret.ns +
                                                   " -k deploy/kubernetes-mesh-namespace`"};
  }

  std::vector<Problem> problems() const {
    std::vector<Problem> problems = spec_->list_problems();
    for (Problem& root : problems_of(roots_->status(), runtime_.clock.wall_now()))
      problems.push_back(std::move(root));
    if (audit_)
      if (auto fault = audit_->problem()) problems.push_back(*std::move(fault));
    const std::lock_guard lock(upkeep_mutex_);
    if (upkeep_)
      for (Problem& problem : upkeep_->problems()) problems.push_back(std::move(problem));
    return problems;
  }

  // Reasons not to be ready.
  std::vector<std::string> missing() const {
    if (stopping_) return {"nothing: the injector is shutting down"};
    if (spec_->has_synced()) return {};
    std::vector<std::string> missing{"namespaces and the MeshConfig, to be read"};
    for (const Problem& problem : spec_->list_problems()) missing.push_back(problem.text());
    return missing;
  }

  const Options options_;
  OwnRuntime& runtime_;
  const std::string replica_ = daemon::replica_name(runtime_.rng);
  std::atomic<bool> stopping_{false};

  net::Threads admissions_{kAdmissionThreads};
  net::Threads upkeep_threads_{kUpkeepThreads};  // wait for the API server, and for CAs

  std::unique_ptr<kubernetes::Cluster> cluster_;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<TextRecord> last_config_, record_;
  std::unique_ptr<MeshSpec> spec_;
  Subscription mesh_config_;
  std::unique_ptr<ReplicaBoard> board_;  // controllers wait until this replica acts on the record
  std::unique_ptr<RootRotation> roots_;
  std::unique_ptr<daemon::AuditLog> audit_;  // null: none is wanted
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<certificate::KeptCertificate> certificate_;
  std::unique_ptr<inject::Injector> injector_;
  std::unique_ptr<net::HttpServer> webhook_;
  mutable std::mutex upkeep_mutex_;  // monitoring asks it while the injector ends
  std::unique_ptr<kubernetes::Upkeep> upkeep_;
  std::unique_ptr<net::HttpServer> http_;
};

// Starts everything; it is ready once pods can be injected. Failure: what is wrong and what to do.
// Blocking: until the API server has answered.
Result<std::unique_ptr<daemon::Daemon>> start(const Options& options, OwnRuntime& runtime) {
  auto injector = std::make_unique<Injector>(options, runtime);
  OSM_TRY(injector->start());
  return std::unique_ptr<daemon::Daemon>(std::move(injector));
}

}  // namespace
}  // namespace osm::injector

int main(int argc, char** argv) {
  osm::injector::Options options;
  if (const int code = osm::injector::parse_options(argc, argv, options); code >= 0) return code;
  return osm::daemon::run("osm-injector", options.log_level, [&](osm::OwnRuntime& runtime) {
    return osm::injector::start(options, runtime);
  });
}
