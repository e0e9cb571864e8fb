#include "kubernetes/upkeep/gateway_keeper.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "kubernetes/upkeep/preset.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kGatewayRetry{5};
constexpr std::chrono::seconds kLeaseLook{60};  // notices that another replica holds the Lease
constexpr const char* kField = "spec.certificate.ingressGateway";
constexpr const char* kGatewayComponent = "ingress-gateway";
constexpr const char* kFingerprint = "openservicemesh.io/certificate-fingerprint";

certificate::Subject subject_of(const IngressGatewayCertificate& wanted,
                                const TrustDomain& domain) {
  const std::string& name = wanted.subject_alt_names.front();
  return {CommonName(name), SpiffeId("spiffe://" + domain.str() + "/osm/gateway/" + name),
          certificate::Usage::kGateway, wanted.subject_alt_names};
}

ObjectKey secret_of(const IngressGatewayCertificate& wanted) {
  return {kSecrets.group_kind(), wanted.secret_namespace, wanted.secret_name};
}

json::object data_of(const certificate::Certificate& certificate, const std::string& roots) {
  const SecretBytes key(base64(certificate.private_key.pem()));
  return {{"ca.crt", base64(roots)},
          {"tls.crt", base64(certificate.chain_pem)},
          {"tls.key", key.text()}};
}

// Another writer was faster; the present object is checked again.
bool is_race(ErrorCode code) {
  return code == ErrorCode::kConflict || code == ErrorCode::kAlreadyExists;
}

}  // namespace

GatewayKeeper::GatewayKeeper(const UpkeepOptions& options, std::function<bool()> may_write,
                             std::function<void()> on_problems)
    : api_(options.cluster.api()),
      runtime_(options.runtime),
      gateway_(*options.gateway),
      mesh_name_(options.mesh_name),
      mesh_config_{kinds::kMeshConfig, options.osm_namespace, kMeshConfigName},
      may_write_(std::move(may_write)),
      on_problems_(std::move(on_problems)),
      strand_(runtime_.blocking),
      round_(strand_, runtime_.rng,
             {.turn = [this] { return keep(); },
              .may_run = may_write_,
              .forget =
                  [this] {
                    secrets_.stop();
                    forget();
                  }}),
      secrets_({.api = api_,
                .executor = strand_,
                .runtime = runtime_,
                .resource = kSecrets,
                .label_selector = mesh_selector(mesh_name_, kGatewayComponent),
                .metadata_only = true,
                .on_change = [this](const auto&) { wake(); }},
               options) {
  config_ = gateway_.mesh_spec.subscribe([this](const SpecChange& change) {
    const auto& keys = change.keys;
    // An empty list: it has synced, or problems changed, which in_doubt() checks.
    if (keys.empty() || std::find(keys.begin(), keys.end(), mesh_config_) != keys.end()) wake();
  });
  renewals_ = gateway_.manager.subscribe([this](const certificate::CertificatePtr& renewed) {
    if (renewed->subject.usage == certificate::Usage::kGateway) wake();
  });
  ca_ = gateway_.manager.subscribe_ca([this] { wake(); });
  wake();
}

GatewayKeeper::~GatewayKeeper() {
  stop();
  release();
}

void GatewayKeeper::on_acquired() {
  begun_ = true;
  wake();
}

std::vector<Problem> GatewayKeeper::problems() const {
  std::lock_guard lock(mutex_);
  return problem_ ? std::vector{*problem_} : std::vector<Problem>();
}

Pause GatewayKeeper::keep() {
  if (begun_.exchange(false)) forget();
  secrets_.start();
  if (!gateway_.mesh_spec.has_synced())
    return {};  // otherwise it would look like a missing MeshConfig
  const auto wanted = gateway_.mesh_spec.get_mesh_config().certificates.ingress_gateway;
  if (!wanted && in_doubt()) return {};
  const auto secret = wanted ? std::optional(secret_of(*wanted)) : std::nullopt;
  if (std::exchange(secret_, secret) != secret) swept_ = false;
  if (wanted) namespaces_.insert(wanted->secret_namespace);
  secrets_.set_namespaces(namespaces_);
  if (!secrets_.has_synced()) {
    if (const auto problems = secrets_.problems(); !problems.empty())
      report(Error{problems.front().code, problems.front().cause});
    return {};
  }
  Status done;
  if (wanted) {
    done = put(*secret, *wanted);
  } else {
    release();
  }
  // Remove others last, so that a gateway whose Secret gets another name always has one.
  if (done.ok() && !swept_) done = remove_others();
  if (done.ok() || !is_race(done.error().code)) report(done);
  return {.length = done.ok() ? kLeaseLook : kGatewayRetry, .jitter = true};
}

// A MeshConfig that cannot be read causes no removal.
bool GatewayKeeper::in_doubt() const {
  const std::vector<Problem> problems = gateway_.mesh_spec.list_problems();
  return std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) {
    return problem.object == mesh_config_ && problem.code != ErrorCode::kUnusedField;
  });
}

Result<certificate::CertificatePtr> GatewayKeeper::certificate_for(
    const IngressGatewayCertificate& wanted) {
  const certificate::Subject subject = subject_of(wanted, gateway_.trust_domains().signing);
  if (subject_ && (*subject_ != subject || validity_ != wanted.validity)) release();
  OSM_TRY(certificate::CertificatePtr certificate,
          gateway_.manager.issue_certificate(subject, wanted.validity));
  subject_ = subject;
  validity_ = wanted.validity;
  return certificate;
}

Status GatewayKeeper::put(const ObjectKey& key, const IngressGatewayCertificate& wanted) {
  OSM_TRY(const certificate::CertificatePtr certificate, certificate_for(wanted));
  const std::string roots = gateway_.manager.trust_bundle_pem();
  const auto held = secrets_.get(key.ns, key.name);
  const bool current = written_ && written_->key == key && written_->certificate == certificate &&
                       written_->trust_bundle_pem == roots;
  if (held && current && written_->secret.version == held->resource_version) return {};
  // Asked for by name, since somebody else's Secret has no label of ours.
  OSM_TRY(const auto found, list_all(api_, {.resource = kSecrets,
                                            .ns = key.ns,
                                            .field_selector = "metadata.name=" + key.name,
                                            .metadata_only = true}));
  if (!found.empty()) {
    const Metadata metadata = metadata_of(found.front());
    const bool known = written_ && written_->key == key && written_->secret.uid == metadata.uid;
    if (known && current && written_->secret.version == metadata.version) return {};
    if (!known && !is_ours(found.front()))
      return Error{ErrorCode::kInvalidField,
                   key.str() + " is there and is not the mesh's: delete it, or name another"};
  }
  json::object secret = new_object(kSecrets, key.ns, key.name, labels());
  secret["metadata"].as_object()["annotations"] =
      json::object{{kFingerprint, certificate->fingerprint}};
  secret["type"] = "kubernetes.io/tls";
  secret["data"] = data_of(*certificate, roots);
  OSM_TRY(Metadata made, found.empty() ? create(std::move(secret))
                                       : patch_secret(api_, found.front(), std::move(secret)));
  written_ = Written{key, std::move(made), certificate, roots};
  runtime_.log.info(
      "the ingress gateway's certificate is in its Secret",
      {{"secret", key.ns + '/' + key.name}, {"fingerprint", certificate->fingerprint}});
  return {};
}

Result<Metadata> GatewayKeeper::create(json::object secret) {
  auto created = api_.create(kSecrets, secret);
  erase_data(secret);
  if (created.ok()) {
    erase_data(*created);
    return metadata_of(*created);
  }
  if (created.error().code != ErrorCode::kPermissionDenied) return created.error();
  const auto [ns, name, uid, version] = metadata_of(secret);
  return Error{ErrorCode::kPermissionDenied,
               ObjectKey(kSecrets.group_kind(), ns, name).str() + " cannot be made; allow it by `" +
                   grant_command("osm-ingress-gateway", "osm-injector-secrets", mesh_name_,
                                 mesh_config_.ns, ns) +
                   "`: " + created.error().message};
}

// Removes also Secrets of an earlier replica.
Status GatewayKeeper::remove_others() {
  for (const auto& secret : secrets_.list()) {
    const ObjectKey& key = secret->key;
    if (key == secret_) continue;
    if (!may_write_()) return Error{ErrorCode::kConflict, "another replica holds the Lease"};
    const Status removed =
        api_.remove(kSecrets, key.ns, key.name, {.resource_version = secret->resource_version});
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
    runtime_.log.info("a Secret of an ingress gateway is deleted: MeshConfig does not name it",
                      {{"secret", key.ns + '/' + key.name}});
  }
  swept_ = true;
  return {};
}

json::object GatewayKeeper::labels() const {
  return component_labels(mesh_name_, kGatewayComponent);
}

bool GatewayKeeper::is_ours(const json::object& secret) const {
  const json::object& held = map_at(map_at(secret, "metadata"), "labels");
  const json::object wanted = labels();
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    return text_at(held, label.key()) == std::string_view(label.value().as_string());
  });
}

// Release only our own certificate: other users share the manager's names.
void GatewayKeeper::release() {
  if (subject_) gateway_.manager.release_certificate(subject_->common_name);
  subject_.reset();
  written_.reset();
}

// Forget the cluster's state: other replicas write now.
void GatewayKeeper::forget() {
  release();
  swept_ = false;
  report({});
}

void GatewayKeeper::report(const Status& status) {
  std::optional<Problem> problem;
  if (!status.ok())
    problem = Problem{.code = status.error().code,
                      .object = mesh_config_,
                      .path = {},
                      .field = kField,
                      .cause = status.error().message};
  {
    std::lock_guard lock(mutex_);
    if (problem_ == problem) return;
    problem_ = problem;
  }
  if (problem)
    runtime_.log.warning("an ingress gateway's certificate is not kept",
                         {{"field", kField}, {"detail", status.error().text()}});
  on_problems_();
}

}  // namespace osm::inline v1::kubernetes
