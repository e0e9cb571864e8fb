#include "kubernetes/upkeep/secret_keeper.hpp"

#include <boost/json.hpp>
#include <optional>
#include <utility>

#include "base/backoff.hpp"
#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/times.hpp"
#include "kubernetes/client/blocking_list.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/source/pod.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kRound{1};
constexpr std::chrono::minutes kSweep{1};
constexpr std::chrono::seconds kRetry{5};      // after a failure
constexpr std::chrono::minutes kPatience{10};  // time to wait for a Secret's Pod
constexpr std::size_t kDeletionsPerSweep = 500;

// The proxy's UUID in the name of a bootstrap Secret.
std::optional<std::string> uuid_of(const json::object& secret) {
  const std::string name = metadata_of(secret).name;
  if (!name.starts_with(kBootstrapSecretPrefix)) return std::nullopt;
  const std::string uuid = name.substr(kBootstrapSecretPrefix.size());
  return is_uuid(uuid) ? std::optional(uuid) : std::nullopt;
}

// {"metadata": ...}
const json::object& json_of(const Object& secret) { return secret.document->as_object(); }

bool has_owner(const json::object& secret) {
  return !list_at(map_at(secret, "metadata"), "ownerReferences").empty();
}

}  // namespace

SecretKeeper::SecretKeeper(const UpkeepOptions& options, std::function<bool()> may_write)
    : api_(options.cluster.api()),
      runtime_(options.runtime),
      store_(options.secrets->store),
      may_write_(std::move(may_write)),
      strand_(runtime_.blocking),
      secrets_({.api = api_,
                .executor = strand_,
                .runtime = runtime_,
                .resource = kSecrets,
                .label_selector = mesh_selector(options.mesh_name),
                .metadata_only = true,
                .on_change = [this](const auto& keys) { on_secrets(keys); }}) {
  if (options.secrets->certificates)
    renewer_.emplace(
        options, may_write_,
        [this](const std::string& ns, const std::string& name) { return find(ns, name); },
        [this] { sweep(); }, strand_);
  strand_.post([this] { sweep_timer_ = strand_.post_after(kRound, [this] { sweep(); }); });
}

void SecretKeeper::on_objects(const std::vector<ObjectKey>& keys) {
  for (const ObjectKey& key : keys)
    if (key.is(kinds::kPod)) return round_soon();
}

void SecretKeeper::round_soon() {
  if (touched_.exchange(true)) return;
  strand_.post([this] { round_timer_ = strand_.post_after(kRound, [this] { round(); }); });
}

void SecretKeeper::on_secrets(const std::vector<ObjectKey>& keys) {
  if (!may_write_() || !secrets_.has_synced()) return;
  if (!std::exchange(listed_, true)) {
    current_ = true;
    return sweep();
  }
  for (const ObjectKey& key : keys) {
    const auto secret = find(key.ns, key.name);
    if (!secret) continue;
    if (has_owner(*secret)) {
      if (renewer_) renewer_->look_at(*secret);
    } else if (const auto uuid = uuid_of(*secret)) {
      kept_.erase({key.ns, *uuid});
      round_soon();
    }
  }
}

void SecretKeeper::on_acquired() {
  strand_.post([this] { sweep(); });
}

std::optional<std::size_t> SecretKeeper::stale() const {
  return renewer_ ? renewer_->stale() : std::nullopt;
}

SecretKeeper::Owners SecretKeeper::owners() const {
  Owners owners;
  for (const auto& object : store_.list(kinds::kPod)) {
    const auto label = object->labels.find(kProxyUuidLabel);
    if (label == object->labels.end()) continue;
    const Claim claim{object->key.ns, label->second};
    if (kept_.contains(claim)) {
      owners.try_emplace(claim);  // it exists; its Pod is known already
      continue;
    }
    const json::value& pod = *object->document;
    if (!mounts_secret(map_at(pod, "spec"), std::string(kBootstrapSecretPrefix) + label->second))
      continue;
    const json::object& metadata = map_at(pod, "metadata");
    Owner owner{object->key.name, text_at(metadata, "uid"), text_at(metadata, "creationTimestamp")};
    if (owner.uid.empty()) continue;
    const auto [at, first] = owners.try_emplace(claim, owner);
    if (!first &&
        std::tie(owner.created, owner.name) < std::tie(at->second.created, at->second.name))
      at->second = std::move(owner);
  }
  return owners;
}

// Handles added and removed Pods.
void SecretKeeper::round() {
  touched_ = false;
  if (!may_write_() || !store_.has_synced() || !secrets_.has_synced()) return;
  const Owners present = owners();
  std::erase_if(kept_, [&](const Claim& claim) { return !present.contains(claim); });
  adopt_new(present);
}

void SecretKeeper::adopt_new(const Owners& present) {
  for (const auto& [claim, owner] : present) {
    if (kept_.contains(claim)) continue;
    if (!may_write_()) return;
    const auto secret = find(claim.first, std::string(kBootstrapSecretPrefix) + claim.second);
    const bool owned = secret && has_owner(*secret);
    if (owned && renewer_) renewer_->look_at(*secret);
    if (!secret || owned || adopt(*secret, owner).ok()) kept_.insert(claim);
  }
}

void SecretKeeper::sweep() {
  const bool may_write = may_write_();
  if (may_write) {
    secrets_.start();
  } else {
    secrets_.stop();
    listed_ = current_ = false;
    kept_.clear();
    orphans_.clear();
    if (renewer_) renewer_->forget();
  }
  const bool done = !may_write || look_at_all();
  sweep_later(done ? std::chrono::nanoseconds(kSweep) : kRetry);
}

void SecretKeeper::sweep_later(std::chrono::nanoseconds delay) {
  sweep_timer_ = strand_.post_after(jittered(delay, runtime_.rng), [this] { sweep(); });
}

bool SecretKeeper::look_at_all() {
  // Before every Pod is known, each Secret looks like an orphan.
  if (!store_.has_synced() || !secrets_.has_synced()) return false;
  // The count of stale Secrets must include each one that was created before the CA changed.
  if (renewer_ && renewer_->outdated() && !current_) {
    secrets_.refresh([this](bool ok) {
      current_ = ok;
      if (ok) return sweep();
      sweep_later(kRetry);
    });
    return true;
  }
  current_ = false;
  const Owners present = owners();
  deletions_left_ = kDeletionsPerSweep;
  orphans_now_.clear();
  const std::vector<json::object> secrets = all();
  if (renewer_) renewer_->look_at_all(secrets);
  for (const json::object& secret : secrets) look_at(secret, present);
  orphans_ = std::exchange(orphans_now_, {});
  return true;
}

void SecretKeeper::look_at(const json::object& secret, const Owners& present) {
  const auto uuid = uuid_of(secret);
  if (!uuid || !may_write_()) return;
  const Claim claim{metadata_of(secret).ns, *uuid};
  if (has_owner(secret)) {
    if (present.contains(claim)) kept_.insert(claim);
    return;
  }
  const auto owner = present.find(claim);
  if (owner == present.end()) return collect(claim, secret);
  // It had an owner before and was changed since.
  if (owner->second.uid.empty()) {
    kept_.erase(claim);
    return;
  }
  if (adopt(secret, owner->second).ok()) kept_.insert(claim);
}

Status SecretKeeper::adopt(const json::object& secret, const Owner& owner) {
  const auto [ns, name, uid, version] = metadata_of(secret);
  const json::object patch{
      {"metadata",
       {{"uid", uid},
        {"resourceVersion", version},
        {"ownerReferences", json::array{json::object{{"apiVersion", kPods.api_version()},
                                                     {"kind", kPods.kind},
                                                     {"name", owner.name},
                                                     {"uid", owner.uid}}}}}}};
  auto patched =
      api_.patch(kSecrets, ns, name, {.type = PatchType::kMerge, .body = json::serialize(patch)});
  if (patched.ok()) {
    erase_data(*patched);
    return {};
  }
  runtime_.log.debug("a bootstrap Secret cannot be given to its Pod",
                     {{"secret", name}, {"detail", patched.error().text()}});
  return patched.error();
}

void SecretKeeper::collect(const Claim& claim, const json::object& secret) {
  const SteadyTime now = runtime_.clock.steady_now();
  const SteadyTime* before = find_in(orphans_, claim);
  const SteadyTime since = before ? *before : now;
  orphans_now_.emplace(claim, since);
  const auto [ns, name, uid, version] = metadata_of(secret);
  // Two clocks must agree: the API server's on the Secret's age, and ours on the absence of the
  // Pod.
  const std::string limit = rfc3339(runtime_.clock.wall_now() - kPatience);
  const std::string created = text_at(map_at(secret, "metadata"), "creationTimestamp");
  if (created > limit || now - since < kSweep) return;
  if (deletions_left_ == 0 || pod_exists(claim)) return;
  --deletions_left_;
  if (!api_.remove(kSecrets, ns, name, {.uid = uid, .resource_version = version}).ok()) return;
  runtime_.metrics.add("osm_bootstrap_secrets_collected_total", {}, 1);
  runtime_.log.info("a bootstrap Secret whose Pod never came is deleted",
                    {{"namespace", ns}, {"secret", name}});
}

// Ask the API server itself: this replica's informers may lag.
bool SecretKeeper::pod_exists(const Claim& claim) {
  const auto page =
      list_page(api_, {.resource = kPods,
                       .ns = claim.first,
                       .label_selector = std::string(kProxyUuidLabel) + '=' + claim.second,
                       .limit = 1,
                       .metadata_only = true});
  return !page.ok() || !page->items.empty();
}

std::vector<json::object> SecretKeeper::all() const {
  std::vector<json::object> all;
  for (const auto& secret : secrets_.objects().list()) all.push_back(json_of(*secret));
  return all;
}

std::optional<json::object> SecretKeeper::find(const std::string& ns,
                                               const std::string& name) const {
  const auto secret = secrets_.objects().get(ns, name);
  return secret ? std::optional(json_of(*secret)) : std::nullopt;
}

}  // namespace osm::inline v1::kubernetes
