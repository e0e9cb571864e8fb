#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "daemon.hpp"
#include "mesh_source.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/inject/validator.hpp"
#include "osm/kubernetes/admin_access.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/net/http_server.hpp"
#include "osm/runtime/lanes.hpp"
#include "ports.hpp"
#include "process.hpp"
#include "webhook.hpp"

namespace osm::controller {
namespace {

constexpr Gauge kV1IdentitiesAccepted{"osm_v1_identities_accepted",
                                      "1 while workloads of OSM v1.2 are accepted"};

// Reviews that are answered at once.
constexpr unsigned kReviews = 4;

// Names that the original gives them.
constexpr const char* kValidatorService = "osm-validator";

class KubernetesSource final : public MeshSource {
 public:
  using MeshSource::MeshSource;

  Status start() {
    announce_osm_v1();
    OSM_TRY(cluster_, kubernetes::connect({.kubeconfig = options_.kubeconfig,
                                           .environment = daemon::environment(),
                                           .io = runtime_.asio(),
                                           .runtime = runtime_}));
    OSM_TRY(read(kubernetes::make_store(
                     {.cluster = *cluster_,
                      .runtime = daemon::with_executors(runtime_, reading_, runtime_.blocking),
                      .mesh_name = options_.mesh_name,
                      .osm_namespace = options_.osm_namespace}),
                 kubernetes::make_mesh_config_record(*cluster_, options_.osm_namespace),
                 kubernetes::make_drain_record(*cluster_, options_.osm_namespace)));
    join_tokens_ = kubernetes::make_join_record(*cluster_, options_.osm_namespace);
    pods_ = kubernetes::make_provider({.store = *store_,
                                       .mesh_spec = *spec_,
                                       .log = runtime_.log,
                                       .metrics = runtime_.metrics,
                                       .cluster_name = options_.cluster_name});
    return start_board();
  }

  TextRecord* join_tokens() override { return join_tokens_.get(); }
  ReplicaBoard* board() override { return board_.get(); }
  std::optional<std::size_t> kept_lag() const override {
    return upkeep_ ? upkeep_->stale_secrets() : std::nullopt;
  }

  Status start_upkeep(ControlPlane& control_plane, certificate::Manager& manager,
                      const RootRotation& roots, daemon::Startup& startup) override {
    OSM_TRY(certificate_, startup.wait_for(daemon::kAuthority, [&] {
      return certificate::KeptCertificate::issue(manager, validator_subject(roots.trust_domains()));
    }));
    OSM_TRY(start_validator());
    const auto domains = [&roots] { return roots.trust_domains(); };
    const auto validity = [this] { return spec_->get_mesh_config().certificates.proxy_validity; };
    const auto denials = [this] { return denials_of(spec_->list_policies()); };
    OSM_TRY(auto upkeep,
            kubernetes::start_upkeep(
                {.cluster = *cluster_,
                 .runtime = waiting_runtime(),
                 .replica = replica_,
                 .mesh_name = options_.mesh_name,
                 .osm_namespace = options_.osm_namespace,
                 .kinds_repair = kubernetes::Repair::kReport,
                 .validating_webhook = kubernetes::WebhookUpkeep{&manager},
                 .beside_osm_v1 = options_.beside_osm_v1,
                 .board = board_.get(),
                 .follow_preset = true,
                 .status = kubernetes::StatusUpkeep{control_plane, *store_},
                 .secrets = kubernetes::SecretUpkeep{*store_,
                                                     kubernetes::ProxyCertificateUpkeep{
                                                         manager, domains, validity, denials}},
                 .gateway = kubernetes::GatewayUpkeep{manager, *spec_, domains},
                 .roots = kubernetes::RootsUpkeep{[&roots] { return roots.status(); }, *store_},
                 .secrets_by_namespace = options_.secrets_by_namespace}));
    set_upkeep(std::move(upkeep));
    return {};
  }

  std::vector<Problem> own_problems() const override {
    const std::lock_guard lock(upkeep_mutex_);
    return upkeep_ ? upkeep_->problems() : std::vector<Problem>();
  }

  Status set_trust_domains(const TrustDomains& trust_domains) override {
    return certificate_->change_subject(validator_subject(trust_domains));
  }

  Status serve_admin(net::Handler handler) override {
    net::HttpServerOptions http = daemon::kRemoteAdminPort.options(options_.remote_admin_address);
    http.check_head = kubernetes::require_admin_token({.cluster = *cluster_,
                                                       .osm_namespace = options_.osm_namespace,
                                                       .replica = daemon::host_name()});
    http.keep_alive = false;
    http.tls = [this] { return certificate_->load(); };
    OSM_TRY(admin_, net::HttpServer::start(http, runtime_.asio(), asking_, std::move(handler),
                                           runtime_.log));
    return {};
  }

  void stop_upkeep() override { set_upkeep(nullptr); }

  void stop_webhook(std::chrono::milliseconds deadline) override {
    if (admin_) daemon::report(runtime_.log, admin_->stop(deadline / 4));
    if (webhook_) daemon::report(runtime_.log, webhook_->stop(deadline));
    admin_.reset();
    webhook_.reset();
    certificate_.reset();
  }

 private:
  kubernetes::Provider* pods() const override { return pods_.get(); }

  void set_upkeep(std::unique_ptr<kubernetes::Upkeep> upkeep) {
    const std::lock_guard lock(upkeep_mutex_);
    upkeep_.swap(upkeep);
  }

  // Somebody has to turn it off when the move is over: each start says that it is on.
  void announce_osm_v1() {
    runtime_.metrics.set(kV1IdentitiesAccepted, {}, options_.beside_osm_v1 ? 1 : 0);
    if (options_.beside_osm_v1)
      runtime_.log.warning(
          "workloads of OSM v1.2 are accepted by the DNS names in their certificates; remove "
          "--beside-osm-v1 when no pod has a sidecar of OSM v1.2 any more",
          {});
  }

  Runtime waiting_runtime() { return daemon::with_executors(runtime_, waiting_, waiting_); }

  // Before certificates are, which follow what the replicas have agreed on.
  Status start_board() {
    record_ = kubernetes::make_rotation_record(*cluster_, options_.osm_namespace);
    OSM_TRY(board_, kubernetes::make_replica_board({.cluster = *cluster_,
                                                    .runtime = waiting_runtime(),
                                                    .replica = replica_,
                                                    .mesh_name = options_.mesh_name,
                                                    .osm_namespace = options_.osm_namespace}));
    return {};
  }

  certificate::Subject validator_subject(const TrustDomains& trust_domains) const {
    return certificate::webhook_subject(trust_domains.signing, kValidatorService,
                                        options_.osm_namespace);
  }

  Status start_validator() {
    make_validator();
    OSM_TRY(webhook_,
            daemon::start_webhook(
                {.address = options_.validator_address,
                 .path = "/validate",
                 .review = [this](const auto& request) { return validator_->review(request.body); },
                 .certificate = *certificate_,
                 .runtime = runtime_,
                 .handlers = reviews_}));
    return {};
  }

  // Waits for the API server, which may be away: issuing certificates must not wait with it.
  net::Lane waiting_{runtime_.lanes(),
                     {.name = "statuses, Secrets and Leases", .bound = 4, .watched = true}};
  // The validating webhook uses it.
  net::Lane reviews_{runtime_.lanes(), {.name = "reviews", .bound = kReviews, .watched = true}};
  // Bounds the reviews of tokens that anybody in the cluster can cause.
  net::Lane asking_{runtime_.lanes(), {.name = "admin by token", .bound = 2}};
  std::unique_ptr<TextRecord> join_tokens_;
  std::unique_ptr<kubernetes::Provider> pods_;
  std::unique_ptr<ReplicaBoard> board_;
  std::unique_ptr<certificate::KeptCertificate> certificate_;
  std::unique_ptr<net::HttpServer> webhook_;
  std::unique_ptr<net::HttpServer> admin_;
  mutable std::mutex upkeep_mutex_;  // monitoring asks it while the controller ends
  std::unique_ptr<kubernetes::Upkeep> upkeep_;
};

}  // namespace

Result<std::unique_ptr<MeshSource>> make_kubernetes_source(const Options& options,
                                                           OwnRuntime& runtime) {
  auto source = std::make_unique<KubernetesSource>(options, runtime);
  OSM_TRY(source->start());
  return std::unique_ptr<MeshSource>(std::move(source));
}

}  // namespace osm::controller
