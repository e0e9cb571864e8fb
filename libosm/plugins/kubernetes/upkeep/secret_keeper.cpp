#include "kubernetes/upkeep/secret_keeper.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <tuple>
#include <utility>

#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/numbers.hpp"
#include "base/times.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/source/pod.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr Gauge kBootstrapSecretsWaiting{"osm_bootstrap_secrets_waiting",
                                         "Secrets whose pod has not come"};
constexpr Counter kBootstrapSecretsCollected{"osm_bootstrap_secrets_collected_total",
                                             "Secrets deleted because their pod was never created"};

constexpr std::chrono::seconds kRound{1};
constexpr std::chrono::minutes kSweep{1};
constexpr std::chrono::seconds kRetry{5};      // after a failure
constexpr std::chrono::minutes kPatience{10};  // time to wait for a Secret's Pod
constexpr std::size_t kDeletionsPerSweep = 500;
constexpr std::chrono::milliseconds kNextSweep{200};  // while a sweep leaves some

constexpr const char* kWaitingTopic = "waiting-secrets";
constexpr std::size_t kMaxTextBytes = 90'000;  // a board's text has at most 100 kB

// The proxy's UUID in the name of a bootstrap Secret; empty: this is none.
std::string uuid_of(const ObjectKey& secret) {
  if (!secret.name.starts_with(kBootstrapSecretPrefix)) return {};
  std::string uuid = secret.name.substr(kBootstrapSecretPrefix.size());
  return is_uuid(uuid) ? uuid : std::string();
}

bool has_owner(const Object& secret) {
  return !list_at(map_at(*secret.document, "metadata"), "ownerReferences").empty();
}

// A line with the count of all, then one for each namespace. Rounded, since each change of the text
// is a write of the Lease.
std::size_t rounded(std::size_t count) { return count / 10 * 10; }

std::string text_of(const inject::WaitingSecrets& waiting) {
  std::string text = std::to_string(rounded(waiting.all));
  for (const auto& [ns, count] : waiting.by_namespace) {
    if (rounded(count) == 0) continue;
    const std::string line = '\n' + ns + ' ' + std::to_string(rounded(count));
    if (text.size() + line.size() <= kMaxTextBytes) text += line;
  }
  return text;
}

std::optional<inject::WaitingSecrets> parse_waiting(std::string_view text) {
  const auto next_line = [&text] {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  const auto all = number_of<std::size_t>(next_line());
  if (!all) return std::nullopt;
  inject::WaitingSecrets waiting{.all = *all};
  while (!text.empty()) {
    const std::string_view line = next_line();
    const auto blank = std::min(line.find(' '), line.size());
    if (const auto count = number_of<std::size_t>(line.substr(std::min(blank + 1, line.size()))))
      waiting.by_namespace[std::string(line.substr(0, blank))] = *count;
  }
  return waiting;
}

}  // namespace

SecretKeeper::SecretKeeper(const UpkeepOptions& options, std::function<bool()> may_write)
    : api_(options.cluster.api()),
      runtime_(options.runtime),
      store_(options.secrets->store),
      mesh_name_(options.mesh_name),
      board_(options.board),
      may_write_(std::move(may_write)),
      lines_(runtime_.clock),
      strand_(runtime_.blocking),
      look_(strand_, runtime_.rng,
            {.turn = [this] { return look(); }, .collect = [] { return kRound; }}),
      sweep_(strand_, runtime_.rng,
             {.turn = [this] { return sweep(); },
              .may_run = may_write_,
              .forget = [this] { forget(); },
              .ask_again = {.length = kSweep, .jitter = true}}),
      secrets_({.api = api_,
                .executor = strand_,
                .runtime = runtime_,
                .resource = kSecrets,
                .label_selector = mesh_selector(options.mesh_name),
                .metadata_only = true,
                .on_change = [this](const auto&) { on_secrets(); }},
               options) {
  if (options.secrets->certificates)
    renewer_.emplace(
        options, may_write_, secrets_, [this] { sweep_.wake(); }, strand_);
  sweep_.rest({.length = kRound, .jitter = true});
}

void SecretKeeper::on_objects(const std::vector<ObjectKey>& keys) {
  for (const ObjectKey& key : keys)
    if (key.is(kinds::kPod) || key.is(kinds::kNamespace)) return look_.wake();
}

void SecretKeeper::on_secrets() {
  if (!may_write_() || !secrets_.has_synced()) return;
  if (std::exchange(listed_, true)) return look_.wake();
  current_ = true;
  sweep_.wake();
}

std::optional<std::size_t> SecretKeeper::stale() const {
  const auto stale = renewer_ ? renewer_->stale() : std::nullopt;
  return stale ? std::optional(*stale + secrets_.unreadable()) : std::nullopt;
}

// Before every Pod is known, each Secret looks like an orphan.
bool SecretKeeper::has_synced() const { return store_.has_synced() && secrets_.has_synced(); }

void SecretKeeper::follow_namespaces() {
  if (!store_.has_synced()) return;
  std::set<std::string> names;
  for (const auto& ns : store_.list(kinds::kNamespace))
    if (is_monitored(store_, ns->key.name, mesh_name_)) names.insert(ns->key.name);
  secrets_.set_namespaces(names);
}

std::map<ObjectKey, SecretKeeper::Owner> SecretKeeper::owners() const {
  std::map<ObjectKey, Owner> owners;
  for (const auto& object : store_.list(kinds::kPod)) {
    const auto label = object->labels.find(kProxyUuidLabel);
    if (label == object->labels.end()) continue;
    const std::string secret = std::string(kBootstrapSecretPrefix) + label->second;
    const json::value& pod = *object->document;
    if (!mounts_secret(map_at(pod, "spec"), secret)) continue;
    const json::object& metadata = map_at(pod, "metadata");
    Owner owner{text_at(metadata, "creationTimestamp"), object->key.name, text_at(metadata, "uid")};
    if (owner.uid.empty()) continue;
    const auto [at, first] =
        owners.try_emplace({kSecrets.group_kind(), object->key.ns, secret}, owner);
    if (!first &&
        std::tie(owner.created, owner.name) < std::tie(at->second.created, at->second.name))
      at->second = std::move(owner);
  }
  return owners;
}

Pause SecretKeeper::look() {
  follow_namespaces();
  if (!may_write_() || !has_synced()) return {};
  report(adopt_all());
  if (renewer_) renewer_->look_at_new();
  return {};
}

Pause SecretKeeper::sweep() {
  follow_namespaces();
  secrets_.start();
  if (!has_synced()) return {.length = kRetry, .jitter = true};
  // The count of stale Secrets must include each one that was created before the CA changed.
  if (renewer_ && renewer_->outdated() && !current_) {
    secrets_.refresh([this](bool ok) {
      current_ = ok;
      if (ok) return sweep_.wake();
      sweep_.rest({.length = kRetry, .jitter = true});
    });
    return {.length = kSweep, .jitter = true};
  }
  current_ = false;
  if (renewer_) renewer_->look_at_all();
  const std::vector<SecretPtr> orphans = adopt_all();
  report(orphans);
  const bool done = collect(orphans);
  return {.length = done ? std::chrono::nanoseconds(kSweep) : kNextSweep, .jitter = true};
}

// Forget the cluster's state: another replica writes now.
void SecretKeeper::forget() {
  follow_namespaces();
  secrets_.stop();
  listed_ = current_ = false;
  orphans_.clear();
  if (renewer_) renewer_->forget();
  if (board_) static_cast<void>(board_->publish(kWaitingTopic, {}));
}

void SecretKeeper::report(const std::vector<SecretPtr>& orphans) {
  runtime_.metrics.set(kBootstrapSecretsWaiting, {}, orphans.size());
  if (!board_) return;
  inject::WaitingSecrets waiting{.all = orphans.size()};
  for (const SecretPtr& secret : orphans) ++waiting.by_namespace[secret->key.ns];
  static_cast<void>(board_->publish(kWaitingTopic, text_of(waiting)));
}

std::vector<SecretKeeper::SecretPtr> SecretKeeper::adopt_all() {
  std::vector<SecretPtr> alone;
  for (SecretPtr& secret : secrets_.list())
    if (!uuid_of(secret->key).empty() && !is_of_osm_v1(*secret) && !has_owner(*secret))
      alone.push_back(std::move(secret));
  if (alone.empty()) return alone;
  const std::map<ObjectKey, Owner> owners = this->owners();
  std::erase_if(alone, [&](const SecretPtr& secret) {
    const auto owner = owners.find(secret->key);
    if (owner == owners.end()) return false;
    if (may_write_()) adopt(*secret, owner->second);
    return true;
  });
  return alone;
}

void SecretKeeper::adopt(const Object& secret, const Owner& owner) {
  const json::array owners{json::object{{"apiVersion", kPods.api_version()},
                                        {"kind", kPods.kind},
                                        {"name", owner.name},
                                        {"uid", owner.uid}}};
  const auto patched = patch_secret(api_, secret.document->as_object(),
                                    {{"metadata", {{"ownerReferences", owners}}}});
  // A later round or sweep tries again.
  if (!patched.ok())
    runtime_.log.debug("a bootstrap Secret cannot be given to its Pod",
                       {{"secret", secret.key.name}, {"detail", patched.error().text()}});
}

bool SecretKeeper::collect(const std::vector<SecretPtr>& orphans) {
  const SteadyTime now = runtime_.clock.steady_now();
  const auto before = std::exchange(orphans_, {});
  std::map<std::string, Result<std::set<std::string>>> pods;  // by namespace
  std::size_t deletions_left = kDeletionsPerSweep;
  bool done = true;
  bool progressed = false;
  for (const SecretPtr& secret : orphans) {
    const ObjectKey& key = secret->key;
    const SteadyTime* known = find_in(before, key);
    const SteadyTime since = orphans_.emplace(key, known ? *known : now).first->second;
    if (!may_write_() || !is_given_up(*secret, since)) continue;
    done = deletions_left > 0;
    if (!done) continue;
    if (!pods.contains(key.ns)) pods.emplace(key.ns, list_uuids(key.ns));
    const auto& uuids = pods.at(key.ns);
    if (!uuids.ok() || uuids->contains(uuid_of(key))) continue;
    --deletions_left;
    const auto [ns, name, uid, version] = metadata_of(secret->document->as_object());
    if (!api_.remove(kSecrets, ns, name, {.uid = uid, .resource_version = version}).ok()) continue;
    progressed = true;
    runtime_.metrics.add(kBootstrapSecretsCollected, {}, 1);
    if (const auto left_out = lines_.admit())
      runtime_.log.info(
          "a bootstrap Secret whose Pod never came is deleted",
          {{"namespace", ns}, {"secret", name}, {"left_out", std::to_string(*left_out)}});
  }
  return done || !progressed;  // an API server that refuses all is not asked without pause
}

// Two clocks must agree: the API server's on the Secret's age, and ours on the absence of the Pod.
bool SecretKeeper::is_given_up(const Object& secret, SteadyTime since) const {
  const std::string limit = rfc3339(runtime_.clock.wall_now() - kPatience);
  return text_at(map_at(*secret.document, "metadata"), "creationTimestamp") <= limit &&
         runtime_.clock.steady_now() - since >= kSweep;
}

// Ask the API server itself: this replica's informers may lag.
Result<std::set<std::string>> SecretKeeper::list_uuids(const std::string& ns) {
  OSM_TRY(const auto pods, list_all(api_, {.resource = kPods,
                                           .ns = ns,
                                           .label_selector = kProxyUuidLabel,
                                           .metadata_only = true}));
  std::set<std::string> uuids;
  for (const json::object& pod : pods)
    uuids.insert(text_at(map_at(map_at(pod, "metadata"), "labels"), kProxyUuidLabel));
  return uuids;
}

std::optional<inject::WaitingSecrets> read_waiting_secrets(const ReplicaBoard& board) {
  const auto texts = board.read(kWaitingTopic);
  if (!texts.ok()) return std::nullopt;
  for (const auto& [replica, text] : *texts)
    if (auto waiting = parse_waiting(text)) return waiting;
  return std::nullopt;
}

}  // namespace osm::inline v1::kubernetes
