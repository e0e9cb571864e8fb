#include "kubernetes/upkeep/bootstrap_renewer.hpp"

#include <boost/json.hpp>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/times.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr Counter kBootstrapSecretsRenewed{
    "osm_bootstrap_secrets_renewed_total",
    "New proxy certificates written into Secrets of running pods"};

constexpr double kBurst = 20;                             // writes at once, then
constexpr std::chrono::milliseconds kRenewalSpacing{50};  // one every
constexpr std::chrono::seconds kRetry{5};                 // while a CA or an API server is away

bool is_away(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded;
}

json::object data_of(inject::PodCertificate& certificate) {
  json::object data;
  for (inject::BootstrapFile& file : certificate.files) {
    data[file.name] = SecretBytes(base64(file.content)).text();
    erase(file.content);
  }
  return data;
}

}  // namespace

BootstrapRenewer::BootstrapRenewer(const UpkeepOptions& options, std::function<bool()> may_write,
                                   const MeshSecrets& secrets, std::function<void()> sweep,
                                   Strand& strand)
    : api_(options.cluster.api()),
      runtime_(options.runtime),
      store_(options.secrets->store),
      certificates_(*options.secrets->certificates),
      mesh_name_(options.mesh_name),
      may_write_(std::move(may_write)),
      secrets_(secrets),
      sweep_(std::move(sweep)),
      look_(strand, runtime_.rng,
            {.turn =
                 [this] {
                   if (outdated()) sweep_();
                   return Pause{};
                 },
             .may_run = may_write_}),
      renewals_(strand, runtime_.rng,
                {.turn = [this] { return renew_next(); },
                 .may_run = may_write_,
                 .forget = [this] { forget(); }}),
      rate_(runtime_.clock, kBurst, kRenewalSpacing) {
  changes_ = certificates_.manager.subscribe_ca([this] { look_.wake(); });
}

std::optional<std::size_t> BootstrapRenewer::stale() const {
  if (!may_write_()) return std::nullopt;
  const std::string source = source_now();
  std::lock_guard lock(mutex_);
  if (!looked_ || looked_->source != source) return std::nullopt;
  return looked_->stale;
}

void BootstrapRenewer::look_at_all() {
  source_ = source_now();
  due_.clear();
  failed_.clear();
  look_at_new();
}

void BootstrapRenewer::look_at_new() {
  if (source_.empty()) return;
  const bool scheduled = !due_.empty();
  for (const auto& secret : secrets_.list())
    if (!due_.contains(secret->key) && !failed_.contains(secret->key) && due_for(*secret))
      due_.insert(secret->key);
  publish();
  if (!scheduled && !due_.empty()) renewals_.wake();
}

void BootstrapRenewer::forget() {
  source_.clear();
  due_.clear();
  failed_.clear();
  std::lock_guard lock(mutex_);
  looked_.reset();
}

std::optional<Pod> BootstrapRenewer::due_for(const Object& secret) const {
  const std::string* source = find_in(secret.annotations, inject::kCertificateSourceAnnotation);
  const std::string* renew_after =
      find_in(secret.annotations, inject::kRenewCertificateAfterAnnotation);
  const bool fresh = source && *source == source_ && renew_after &&
                     *renew_after > rfc3339(runtime_.clock.wall_now());
  std::optional<Pod> pod = fresh ? std::nullopt : owner_of(secret);
  if (!pod || !certificates_.denials) return pod;
  const bool denied =
      certificates_.denials().find(pod->proxy_id, identity_of(pod->account)) != nullptr;
  return denied ? std::nullopt : pod;
}

// The Pod that the Secret belongs to, if its proxy starts with it and is one of the mesh.
std::optional<Pod> BootstrapRenewer::owner_of(const Object& secret) const {
  const ObjectKey& key = secret.key;
  if (is_of_osm_v1(secret)) return std::nullopt;
  // A user who may write Secrets and Pods in another namespace must not get a certificate by that.
  if (!is_monitored(store_, key.ns, mesh_name_)) return std::nullopt;
  const json::object& metadata = map_at(*secret.document, "metadata");
  for (const json::value& reference : list_at(metadata, "ownerReferences")) {
    if (text_at(reference, "kind") != kPods.kind) continue;
    const auto object = store_.get({kinds::kPod, key.ns, text_at(reference, "name")});
    if (!object) continue;
    std::optional<Pod> pod = decode_pod(*object).value;
    if (pod && pod->uid == text_at(reference, "uid") && pod->mounts_bootstrap &&
        bootstrap_secret(pod->proxy_id) == key.name)
      return pod;
  }
  return std::nullopt;
}

// Renews one Secret per task, so that the strand does its other work in between.
Pause BootstrapRenewer::renew_next() {
  if (due_.empty()) return {};
  if (!rate_.take()) return {kRenewalSpacing};
  // Take turns, so that a Secret that fails repeatedly does not delay the others.
  const auto next = due_.upper_bound(last_);
  last_ = next == due_.end() ? *due_.begin() : *next;
  const Status done = renew(last_);
  settle(last_, done);
  publish();
  if (!due_.empty()) {
    if (!done.ok() && is_away(done.error().code)) return {.length = kRetry, .jitter = true};
    return {std::chrono::seconds(0)};
  }
  if (renewed_ > 0)
    runtime_.log.info("bootstrap Secrets have new proxy certificates",
                      {{"count", std::to_string(std::exchange(renewed_, 0))}});
  failing_ = !failed_.empty();
  return {};
}

void BootstrapRenewer::settle(const ObjectKey& secret, const Status& done) {
  if (done.ok()) {
    due_.erase(secret);
    return;
  }
  // It was changed meanwhile: read it again.
  if (done.error().code == ErrorCode::kConflict) return;
  if (!std::exchange(failing_, true))
    runtime_.log.warning(
        "a bootstrap Secret does not get a new proxy certificate yet",
        {{"secret", secret.ns + '/' + secret.name}, {"detail", done.error().text()}});
  // A refusal of one Secret does not concern the others.
  if (!is_away(done.error().code)) failed_.insert(due_.extract(secret));
}

// Ok also if nothing is left to do.
Status BootstrapRenewer::renew(const ObjectKey& key) {
  const auto secret = secrets_.get(key.ns, key.name);
  const std::optional<Pod> pod = secret ? due_for(*secret) : std::nullopt;
  if (!pod) return {};
  OSM_TRY(inject::PodCertificate certificate,
          inject::issue_pod_certificate(certificates_.manager, certificates_.trust_domains(),
                                        pod->proxy_id, pod->account, certificates_.validity()));
  return write(*secret, std::move(certificate));
}

Status BootstrapRenewer::write(const Object& secret, inject::PodCertificate certificate) {
  json::object annotations;
  for (const auto& [key, value] : certificate.annotations) annotations[key] = value;
  OSM_TRY(patch_secret(
      api_, secret.document->as_object(),
      {{"metadata", {{"annotations", std::move(annotations)}}}, {"data", data_of(certificate)}}));
  ++renewed_;
  runtime_.metrics.add(kBootstrapSecretsRenewed, {}, 1);
  return {};
}

void BootstrapRenewer::publish() {
  std::lock_guard lock(mutex_);
  looked_ = Looked{source_, due_.size() + failed_.size()};
}

std::string BootstrapRenewer::source_now() const {
  return inject::certificate_source(certificates_.manager.issuer_id(),
                                    certificates_.manager.trust_bundle_pem(),
                                    certificates_.trust_domains(), certificates_.validity());
}

}  // namespace osm::inline v1::kubernetes
