#include "daemon.hpp"

#include <atomic>
#include <utility>

#include "daemons/version.hpp"
#include "environment.hpp"
#include "http_side.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/inject/injector.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/net/http_server.hpp"
#include "osm/net/router.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "roots.hpp"
#include "webhook.hpp"

namespace osm::injector {
namespace {

// Each admission waits for its Secret to be written.
constexpr unsigned kAdmissionThreads = 16;
// Two for the upkeep, one each for the replicas' board and the root rotation.
constexpr unsigned kUpkeepThreads = 4;
constexpr std::chrono::milliseconds kCatchUp{2000};
constexpr int kNativeSidecarsSince = 29;
// An object of 3 MB, and what is around it.
constexpr std::uint64_t kMaxReviewBytes = 8 << 20;
constexpr const char* kService = "osm-injector";

class DaemonImpl final : public Daemon {
 public:
  DaemonImpl(const Options& options, OwnRuntime& runtime) : options_(options), runtime_(runtime) {}

  ~DaemonImpl() override {
    if (roots_.rotation) roots_.rotation->stop();
  }

  Status start() {
    daemon::describe_metrics(runtime_.registry());
    runtime_.metrics.set("osm_version_info", {{"version", kVersion}, {"git_commit", kCommit}}, 1);
    for (const auto step : {&DaemonImpl::start_cluster, &DaemonImpl::start_certificates,
                            &DaemonImpl::start_injector, &DaemonImpl::start_servers})
      OSM_TRY((this->*step)());
    return {};
  }

  std::string webhook_address() const override { return webhook_->address().str(); }
  std::string http_address() const override { return http_->address().str(); }

  void shutdown(std::chrono::milliseconds deadline) override {
    stopping_ = true;
    const auto report = [this](const Status& status) {
      if (!status.ok()) runtime_.log.warning("shutting down", {{"cause", status.error().message}});
    };
    report(webhook_->stop(deadline / 2));
    roots_.rotation->stop();
    upkeep_ = nullptr;
    report(http_->stop(deadline / 4));
  }

 private:
  Status start_cluster() {
    OSM_TRY(cluster_, kubernetes::connect({.kubeconfig = options_.kubeconfig,
                                           .environment = daemon::environment(),
                                           .io = runtime_.asio(),
                                           .runtime = runtime_}));
    store_ = kubernetes::make_store({.cluster = *cluster_,
                                     .runtime = runtime_,
                                     .mesh_name = options_.mesh_name,
                                     .osm_namespace = options_.osm_namespace,
                                     .kinds = {"Namespace", "MeshConfig", "MeshRootCertificate"}});
    spec_ = spec::make_mesh_spec({.store = *store_,
                                  .mesh_name = options_.mesh_name,
                                  .osm_namespace = options_.osm_namespace,
                                  .log = runtime_.log,
                                  .metrics = runtime_.metrics});
    mesh_config_ = spec_->subscribe([this](const auto&) { follow_log_level(); });
    follow_log_level();
    return {};
  }

  void follow_log_level() {
    runtime_.json_log().set_least(spec_->get_mesh_config().log_level.value_or(options_.log_level));
  }

  Status start_certificates() {
    OSM_TRY(roots_, start_roots({.options = options_.ca,
                                 .trust_domain = options_.trust_domain,
                                 .osm_namespace = options_.osm_namespace,
                                 .cluster = cluster_.get(),
                                 .io = runtime_.asio(),
                                 .runtime = runtime_},
                                *spec_, options_.mesh_name, upkeep_threads_.executor()));
    manager_ =
        certificate::make_manager({.issuer = roots_.rotation->issuer(), .runtime = runtime_});
    OSM_TRY(certificate_, certificate::KeptCertificate::issue(
                              *manager_, webhook_subject(roots_.rotation->trust_domains())));
    // Steps are taken by a controller, which serves proxies.
    roots_.rotation->follow({.manager = *manager_,
                             .leads = [] { return false; },
                             .on_trust_domains =
                                 [this](const TrustDomains& trust_domains) {
                                   return certificate_->change_subject(
                                       webhook_subject(trust_domains));
                                 }});
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
         .write_secret = [this](const auto& secret) { return write_secret(secret); },
         .runtime = runtime_,
         .trust_domain = options_.trust_domain,
         .trust_domains = [this] { return roots_.rotation->trust_domains(); },
         .mesh_name = options_.mesh_name,
         .osm_namespace = options_.osm_namespace,
         .version = kVersion,
         .envoy_image = options_.envoy_image,
         .init_container_image = options_.init_container_image,
         .image_pull_policy = options_.image_pull_policy,
         .native_sidecars = native});
    return {};
  }

  Status start_servers() {
    net::Router router;
    router.post("/mutate-pod-creation", daemon::make_webhook([this](std::string_view body) {
                  return injector_->review(body);
                }));
    OSM_TRY(webhook_, net::HttpServer::start({.listen = options_.listen,
                                              .max_body_bytes = kMaxReviewBytes,
                                              .tls = [this] { return certificate_->load(); },
                                              .client_ca_pem = options_.client_ca_pem},
                                             runtime_.asio(), admissions_.executor(),
                                             std::move(router), runtime_.log));
    OSM_TRY(http_,
            net::HttpServer::start(
                {.listen = options_.http_address}, runtime_.asio(), runtime_.executor,
                daemon::make_http_side({.metrics = runtime_.registry(),
                                        .missing = [this] { return missing(); },
                                        .problems = [this] { return spec_->list_problems(); }}),
                runtime_.log));
    OSM_TRY(upkeep_, kubernetes::start_upkeep(
                         {.cluster = *cluster_,
                          .runtime = {upkeep_threads_.executor(), upkeep_threads_.executor(),
                                      runtime_.clock, runtime_.rng, runtime_.log, runtime_.metrics},
                          .replica = {},
                          .mesh_name = options_.mesh_name,
                          .osm_namespace = options_.osm_namespace,
                          .mutating_webhook = kubernetes::WebhookUpkeep{*manager_}}));
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
    const ObjectKey key{"Namespace", "", name};
    auto found = store_->get(key);
    if (!found) {
      if (!store_->catch_up(kCatchUp)) {
        return Error{ErrorCode::kUnavailable,
                     "Namespace " + name + ": the API server does not say what it is: try again"};
      }
      found = store_->get(key);
    }
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
    if (!created.ok() && created.error().code == ErrorCode::kAlreadyExists) return {};
    return created;
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
  std::atomic<bool> stopping_{false};

  net::Threads admissions_{kAdmissionThreads};
  net::Threads upkeep_threads_{kUpkeepThreads};  // wait for the API server, and for CAs

  std::unique_ptr<kubernetes::Cluster> cluster_;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<MeshSpec> spec_;
  Subscription mesh_config_;
  Roots roots_;
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<certificate::KeptCertificate> certificate_;
  std::unique_ptr<inject::Injector> injector_;
  std::unique_ptr<net::HttpServer> webhook_;
  std::unique_ptr<net::HttpServer> http_;
  std::unique_ptr<kubernetes::Upkeep> upkeep_;
};

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(const Options& options, OwnRuntime& runtime) {
  auto daemon = std::make_unique<DaemonImpl>(options, runtime);
  OSM_TRY(daemon->start());
  return std::unique_ptr<Daemon>(std::move(daemon));
}

}  // namespace osm::injector
