#include "kubernetes/upkeep/bootstrap_renewer.hpp"

#include <boost/json.hpp>
#include <utility>

#include "base/backoff.hpp"
#include "base/base64.hpp"
#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/times.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr double kBurst = 20;                             // writes at once, then
constexpr std::chrono::milliseconds kRenewalSpacing{50};  // one every
constexpr std::chrono::seconds kRetry{5};                 // while a CA or an API server is away

std::pair<std::string, std::string> name_of(const json::object& secret) {
  Metadata metadata = metadata_of(secret);
  return {std::move(metadata.ns), std::move(metadata.name)};
}

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
                                   Find find, std::function<void()> sweep, Strand& strand)
    : api_(options.cluster.api()),
      runtime_(options.runtime),
      store_(options.secrets->store),
      certificates_(*options.secrets->certificates),
      mesh_name_(options.mesh_name),
      may_write_(std::move(may_write)),
      find_(std::move(find)),
      sweep_(std::move(sweep)),
      strand_(strand),
      rate_(runtime_.clock, kBurst, kRenewalSpacing) {
  changes_ = certificates_.manager.subscribe_ca([this] { wake(); });
}

std::optional<std::size_t> BootstrapRenewer::stale() const {
  if (!may_write_()) return std::nullopt;
  const std::string source = source_now();
  std::lock_guard lock(mutex_);
  if (!looked_ || looked_->source != source) return std::nullopt;
  return looked_->stale;
}

void BootstrapRenewer::wake() {
  if (awake_.exchange(true)) return;
  strand_.post([this] {
    awake_ = false;
    if (may_write_() && outdated()) sweep_();
  });
}

void BootstrapRenewer::look_at_all(const std::vector<json::object>& secrets) {
  source_ = source_now();
  due_.clear();
  failed_.clear();
  for (const json::object& secret : secrets)
    if (due_for(secret)) due_.insert(name_of(secret));
  publish();
  if (!due_.empty()) schedule({});
}

void BootstrapRenewer::look_at(const json::object& secret) {
  if (source_.empty() || !due_for(secret)) return;
  const bool scheduled = !due_.empty();
  due_.insert(name_of(secret));
  publish();
  if (!scheduled) schedule({});
}

void BootstrapRenewer::forget() {
  source_.clear();
  due_.clear();
  failed_.clear();
  timer_.reset();
  std::lock_guard lock(mutex_);
  looked_.reset();
}

std::optional<Pod> BootstrapRenewer::due_for(const json::object& secret) const {
  const json::object& annotations = map_at(map_at(secret, "metadata"), "annotations");
  const bool fresh = text_at(annotations, inject::kCertificateSourceAnnotation) == source_ &&
                     text_at(annotations, inject::kRenewCertificateAfterAnnotation) >
                         rfc3339(runtime_.clock.wall_now());
  if (fresh) return std::nullopt;
  return owner_of(secret);
}

// The Pod that the Secret belongs to, if its proxy starts with it and is one of the mesh.
std::optional<Pod> BootstrapRenewer::owner_of(const json::object& secret) const {
  const auto [ns, name] = name_of(secret);
  if (!in_mesh(ns)) return std::nullopt;
  for (const json::value& reference : list_at(map_at(secret, "metadata"), "ownerReferences")) {
    if (text_at(reference, "kind") != kPods.kind) continue;
    const auto object = store_.get({kinds::kPod, ns, text_at(reference, "name")});
    if (!object) continue;
    std::optional<Pod> pod = decode_pod(*object).value;
    if (pod && pod->uid == text_at(reference, "uid") && pod->mounts_bootstrap &&
        bootstrap_secret(pod->proxy_id) == name)
      return pod;
  }
  return std::nullopt;
}

// A user who may write Secrets and Pods in another namespace must not get a certificate by that.
bool BootstrapRenewer::in_mesh(const std::string& ns) const {
  const auto object = store_.get({kinds::kNamespace, "", ns});
  if (!object) return false;
  const std::string* label = find_in(object->labels, spec::kMonitoredByLabel);
  return label && *label == mesh_name_;
}

void BootstrapRenewer::schedule(std::chrono::nanoseconds delay) {
  timer_ = strand_.post_after(delay, [this] { renew_next(); });
}

// Renews one Secret per task, so that the strand does its other work in between.
void BootstrapRenewer::renew_next() {
  if (!may_write_()) return forget();
  if (due_.empty()) return;
  if (!rate_.take()) return schedule(kRenewalSpacing);
  // Take turns, so that a Secret that fails repeatedly does not delay the others.
  const auto next = due_.upper_bound(last_);
  const Name name = last_ = next == due_.end() ? *due_.begin() : *next;
  const Status done = renew(name);
  settle(name, done);
  publish();
  if (!due_.empty())
    return schedule(!done.ok() && is_away(done.error().code) ? jittered(kRetry, runtime_.rng)
                                                             : std::chrono::nanoseconds{});
  if (renewed_ > 0)
    runtime_.log.info("bootstrap Secrets have new proxy certificates",
                      {{"count", std::to_string(std::exchange(renewed_, 0))}});
  failing_ = !failed_.empty();
}

void BootstrapRenewer::settle(const Name& name, const Status& done) {
  if (done.ok()) {
    due_.erase(name);
    return;
  }
  // It was changed meanwhile: read it again.
  if (done.error().code == ErrorCode::kConflict) return;
  if (!std::exchange(failing_, true))
    runtime_.log.warning(
        "a bootstrap Secret does not get a new proxy certificate yet",
        {{"secret", name.first + '/' + name.second}, {"detail", done.error().text()}});
  // A refusal of one Secret does not concern the others.
  if (!is_away(done.error().code)) failed_.insert(due_.extract(name));
}

// Ok also if nothing is left to do.
Status BootstrapRenewer::renew(const Name& name) {
  const auto secret = find_(name.first, name.second);
  if (!secret) return {};
  const std::optional<Pod> pod = due_for(*secret);
  if (!pod) return {};
  OSM_TRY(inject::PodCertificate certificate,
          inject::issue_pod_certificate(certificates_.manager, certificates_.trust_domains(),
                                        pod->proxy_id, pod->account));
  return write(*secret, std::move(certificate));
}

Status BootstrapRenewer::write(const json::object& secret, inject::PodCertificate certificate) {
  const auto [ns, name, uid, version] = metadata_of(secret);
  json::object annotations;
  for (const auto& [key, value] : certificate.annotations) annotations[key] = value;
  json::object body{
      {"metadata",
       {{"uid", uid}, {"resourceVersion", version}, {"annotations", std::move(annotations)}}},
      {"data", data_of(certificate)}};
  Patch patch{.type = PatchType::kMerge, .body = json::serialize(body)};
  const EraseOnExit erased(patch.body);
  erase_data(body);
  OSM_TRY(json::object written, api_.patch(kSecrets, ns, name, patch));
  erase_data(written);
  ++renewed_;
  runtime_.metrics.add("osm_bootstrap_secrets_renewed_total", {}, 1);
  return {};
}

void BootstrapRenewer::publish() {
  std::lock_guard lock(mutex_);
  looked_ = Looked{source_, due_.size() + failed_.size()};
}

std::string BootstrapRenewer::source_now() const {
  return inject::certificate_source(certificates_.manager.issuer_id(),
                                    certificates_.manager.trust_bundle_pem(),
                                    certificates_.trust_domains());
}

}  // namespace osm::inline v1::kubernetes
