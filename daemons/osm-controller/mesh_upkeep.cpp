#include "mesh_upkeep.hpp"

#include <utility>

#include "daemon.hpp"
#include "osm/kubernetes/admin_access.hpp"
#include "osm/net/ports.hpp"
#include "osm/net/webhook_server.hpp"

namespace osm::controller {
namespace {

// The name that the original gives it.
constexpr const char* kValidatorService = "osm-validator";

}  // namespace

Result<std::unique_ptr<MeshUpkeep>> MeshUpkeep::start(const MeshUpkeepOptions& with,
                                                      host::Start& startup) {
  std::unique_ptr<MeshUpkeep> out(new MeshUpkeep(with));
  OSM_TRY(out->certificate_, startup.wait_for(host::kAuthority, [&] {
    return certificate::KeptCertificate::issue(with.manager,
                                               out->subject(with.roots.trust_domains()));
  }));
  const inject::Validator* const validator = with.mesh.validator();
  OSM_TRY(
      out->webhook_,
      net::start_webhook(
          {.address = with.options.validator_address,
           .path = "/validate",
           .review = [validator](const auto& request) { return validator->review(request.body); },
           .certificate = *out->certificate_,
           .runtime = with.runtime,
           .handlers = out->reviews_}));
  MeshSpec& spec = with.mesh.spec();
  ObjectStore& store = *with.mesh.backend().objects;
  const auto domains = [&roots = with.roots] { return roots.trust_domains(); };
  const auto validity = [&spec] { return spec.get_mesh_config().certificates.proxy_validity; };
  const auto denials = [&spec] { return denials_of(spec.list_policies()); };
  OSM_TRY(out->upkeep_,
          kubernetes::start_upkeep(
              {.cluster = *with.mesh.cluster(),
               .runtime = with.mesh.waiting(),
               .replica = with.mesh.backend().replica,
               .mesh_name = with.options.mesh_name,
               .osm_namespace = with.options.osm_namespace,
               .kinds_repair = kubernetes::Repair::kReport,
               .validating_webhook = kubernetes::WebhookUpkeep{&with.manager},
               .beside_osm_v1 = with.options.beside_osm_v1,
               .board = with.mesh.board(),
               .follow_preset = true,
               .status = kubernetes::StatusUpkeep{with.control_plane, store},
               .secrets = kubernetes::SecretUpkeep{store,
                                                   kubernetes::ProxyCertificateUpkeep{
                                                       with.manager, domains, validity, denials}},
               .gateway = kubernetes::GatewayUpkeep{with.manager, spec, domains},
               .roots =
                   kubernetes::RootsUpkeep{[&roots = with.roots] { return roots.status(); }, store},
               .secrets_by_namespace = with.options.secrets_by_namespace}));
  return out;
}

std::vector<Problem> MeshUpkeep::problems() const {
  const std::lock_guard lock(upkeep_mutex_);
  return upkeep_ ? upkeep_->problems() : std::vector<Problem>();
}

certificate::Subject MeshUpkeep::subject(const TrustDomains& trust_domains) const {
  return certificate::webhook_subject(trust_domains.signing, kValidatorService,
                                      with_.options.osm_namespace);
}

RotationParticipants MeshUpkeep::participants() const {
  return {
      .manager = with_.manager,
      .kept_lag = [this] { return upkeep_ ? upkeep_->stale_secrets() : std::nullopt; },
      .on_trust_domains =
          [this](const auto& domains) { return certificate_->change_subject(subject(domains)); }};
}

Status MeshUpkeep::serve_admin(net::Handler handler) {
  net::HttpServerOptions http = net::kRemoteAdminPort.options(with_.options.remote_admin_address);
  http.check_head = kubernetes::require_admin_token({.cluster = *with_.mesh.cluster(),
                                                     .osm_namespace = with_.options.osm_namespace,
                                                     .replica = host::host_name()});
  http.keep_alive = false;
  http.tls = [this] { return certificate_->load(); };
  OSM_TRY(admin_, net::HttpServer::start(http, with_.runtime.asio(), asking_, std::move(handler),
                                         with_.runtime.log));
  return {};
}

void MeshUpkeep::stop() {
  std::unique_lock lock(upkeep_mutex_);
  const auto ends = std::move(upkeep_);
  lock.unlock();
}

void MeshUpkeep::stop_servers(std::chrono::milliseconds deadline) {
  if (admin_) daemon::report(with_.runtime.log, admin_->stop(deadline / 4));
  if (webhook_) daemon::report(with_.runtime.log, webhook_->stop(deadline));
  admin_.reset();
  webhook_.reset();
  certificate_.reset();
}

}  // namespace osm::controller
