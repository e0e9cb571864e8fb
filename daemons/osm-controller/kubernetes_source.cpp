#include "kubernetes_source.hpp"

#include <string>
#include <utility>

#include "ca.hpp"
#include "environment.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/inject/validator.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/net/http_server.hpp"
#include "osm/net/router.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "replica.hpp"
#include "webhook.hpp"

namespace osm::controller {
namespace {

// Names that the original gives them.
constexpr const char* kValidatorService = "osm-validator";

class KubernetesSource final : public MeshSource {
 public:
  explicit KubernetesSource(const MeshSourceOptions& with) : with_(with) {}

  Status start() {
    const Options& options = with_.options;
    OSM_TRY(cluster_, kubernetes::connect({.kubeconfig = options.kubeconfig,
                                           .environment = daemon::environment(),
                                           .io = with_.runtime.asio(),
                                           .runtime = with_.runtime}));
    store_ = kubernetes::make_store({.cluster = *cluster_,
                                     .runtime = with_.runtime,
                                     .mesh_name = options.mesh_name,
                                     .osm_namespace = options.osm_namespace});
    spec_ = spec::make_mesh_spec({.store = *store_,
                                  .mesh_name = options.mesh_name,
                                  .osm_namespace = options.osm_namespace,
                                  .log = with_.runtime.log,
                                  .metrics = with_.runtime.metrics});
    pods_ = kubernetes::make_provider({.store = *store_,
                                       .mesh_spec = *spec_,
                                       .log = with_.runtime.log,
                                       .metrics = with_.runtime.metrics});
    vms_ = vm::make_vm_provider({.store = *store_,
                                 .mesh_spec = *spec_,
                                 .trust_domain = options.trust_domain,
                                 .log = with_.runtime.log,
                                 .metrics = with_.runtime.metrics});
    return start_board();
  }

  ObjectStore& store() override { return *store_; }
  MeshSpec& spec() override { return *spec_; }
  std::vector<ProviderEntry> providers() override {
    return {{.provider = pods_.get()}, {.provider = vms_.get()}};
  }
  std::vector<WorkloadProvider*> workload_providers() override { return {pods_.get(), vms_.get()}; }
  const WorkloadProvider& machines() override { return *vms_; }

  Result<std::unique_ptr<certificate::Issuer>> load_ca(const std::string&) override {
    return daemon::load_ca(ca_options());
  }
  Result<std::shared_ptr<certificate::Issuer>> make_root(
      const MeshRootCertificate& described) override {
    return daemon::make_root(ca_options(), described);
  }

  RotationRecord& rotation_record() override { return *record_; }
  ReplicaBoard* board() override { return board_.get(); }
  bool leads() const override { return upkeep_ && upkeep_->leads(); }
  std::optional<std::size_t> kept_lag() const override {
    return upkeep_ ? upkeep_->stale_secrets() : std::nullopt;
  }

  Status start_upkeep(ControlPlane& control_plane, certificate::Manager& manager,
                      const RootRotation& roots) override {
    OSM_TRY(start_validator(manager, roots.trust_domains()));
    const auto domains = [&roots] { return roots.trust_domains(); };
    OSM_TRY(upkeep_,
            kubernetes::start_upkeep(
                {.cluster = *cluster_,
                 .runtime = {waiting_.executor(), waiting_.executor(), with_.runtime.clock,
                             with_.runtime.rng, with_.runtime.log, with_.runtime.metrics},
                 .replica = replica_,
                 .mesh_name = with_.options.mesh_name,
                 .osm_namespace = with_.options.osm_namespace,
                 .install_kinds = true,
                 .validating_webhook = kubernetes::WebhookUpkeep{manager},
                 .follow_preset = true,
                 .status = kubernetes::StatusUpkeep{control_plane, *store_, board_.get()},
                 .secrets =
                     kubernetes::SecretUpkeep{*store_,
                                              kubernetes::ProxyCertificateUpkeep{manager, domains}},
                 .gateway = kubernetes::GatewayUpkeep{manager, *spec_, domains},
                 .roots = kubernetes::RootsUpkeep{[&roots] { return roots.status(); }, *store_}}));
    return {};
  }

  Status set_trust_domains(const TrustDomains& trust_domains) override {
    return certificate_->change_subject(validator_subject(trust_domains));
  }

  void stop(std::chrono::milliseconds deadline) override {
    upkeep_ = nullptr;
    if (!webhook_) return;
    if (Status stopped = webhook_->stop(deadline); !stopped.ok())
      with_.runtime.log.warning("the validating webhook", {{"cause", stopped.error().message}});
  }

 private:
  daemon::LoadCaOptions ca_options() const {
    return {.options = with_.options.ca,
            .trust_domain = with_.options.trust_domain,
            .osm_namespace = with_.options.osm_namespace,
            .cluster = cluster_.get(),
            .io = with_.runtime.asio(),
            .runtime = with_.runtime};
  }

  // Before certificates are, which follow what the replicas have agreed on.
  Status start_board() {
    record_ = kubernetes::make_rotation_record(*cluster_, with_.options.osm_namespace);
    replica_ = daemon::replica_name(with_.runtime.rng);
    OSM_TRY(board_, kubernetes::make_replica_board(
                        {.cluster = *cluster_,
                         .runtime = {waiting_.executor(), waiting_.executor(), with_.runtime.clock,
                                     with_.runtime.rng, with_.runtime.log, with_.runtime.metrics},
                         .replica = replica_,
                         .mesh_name = with_.options.mesh_name,
                         .osm_namespace = with_.options.osm_namespace}));
    return {};
  }

  certificate::Subject validator_subject(const TrustDomains& trust_domains) const {
    return certificate::webhook_subject(trust_domains.signing, kValidatorService,
                                        with_.options.osm_namespace);
  }

  Status start_validator(certificate::Manager& manager, const TrustDomains& trust_domains) {
    validator_ =
        inject::make_validator({.mesh_spec = *spec_,
                                .metrics = with_.runtime.metrics,
                                .osm_namespace = with_.options.osm_namespace,
                                .store = store_.get(),
                                .more_kinds = {{"VirtualMachine", vm::check_virtual_machine}}});
    OSM_TRY(certificate_,
            certificate::KeptCertificate::issue(manager, validator_subject(trust_domains)));
    net::Router router;
    router.post("/validate", daemon::make_webhook([this](std::string_view body) {
                  return validator_->review(body);
                }));
    OSM_TRY(webhook_, net::HttpServer::start({.listen = with_.options.validator_address,
                                              .max_body_bytes = kMaxReviewBytes,
                                              .tls = [this] { return certificate_->load(); }},
                                             with_.runtime.asio(), with_.runtime.blocking,
                                             std::move(router), with_.runtime.log));
    return {};
  }

  // An object of 3 MB at most, old and new, and what is around them.
  static constexpr std::uint64_t kMaxReviewBytes = 8 << 20;

  const MeshSourceOptions with_;
  // Waits for the API server, which may be away: issuing certificates must not wait with it.
  net::Threads waiting_{4};
  std::unique_ptr<kubernetes::Cluster> cluster_;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<kubernetes::Provider> pods_;
  std::unique_ptr<vm::VmProvider> vms_;
  std::unique_ptr<RotationRecord> record_;
  std::string replica_;
  std::unique_ptr<ReplicaBoard> board_;
  std::unique_ptr<inject::Validator> validator_;
  std::unique_ptr<certificate::KeptCertificate> certificate_;
  std::unique_ptr<net::HttpServer> webhook_;
  std::unique_ptr<kubernetes::Upkeep> upkeep_;
};

}  // namespace

Result<std::unique_ptr<MeshSource>> make_kubernetes_source(const MeshSourceOptions& with) {
  auto source = std::make_unique<KubernetesSource>(with);
  OSM_TRY(source->start());
  return std::unique_ptr<MeshSource>(std::move(source));
}

}  // namespace osm::controller
