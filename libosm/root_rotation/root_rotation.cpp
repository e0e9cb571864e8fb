#include "osm/certificate/root_rotation.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/strand.hpp"
#include "certificate/key_id.hpp"
#include "model/names.hpp"
#include "osm/certificate/progress.hpp"
#include "root_rotation/root_set.hpp"
#include "root_rotation/rotation_text.hpp"

namespace osm::inline v1 {
namespace root_rotation {
namespace {

using certificate::Issuer;
using std::chrono::seconds;

constexpr const char* kTopic = "roots";
constexpr seconds kInMotion{1};  // how often it is looked at while something is waited for
constexpr seconds kAtRest{10};
constexpr seconds kSyncBound{60};
constexpr seconds kAskAgain{15};   // a CA that could not be asked
constexpr seconds kComeBack{120};  // in which proxies connect again to a replica that started
constexpr seconds kRecall{30};     // proxies that have not come back with a newer certificate
// Leaves that were issued before a change of MeshConfig may live so long.
constexpr seconds kLongestLeaf = std::chrono::hours(48);

std::string_view role_text(RootRole role) {
  switch (role) {
    case RootRole::kActive:
      return "active";
    case RootRole::kPassive:
      return "passive";
    case RootRole::kInactive:
      return "inactive";
  }
  return "";
}

bool in_motion(const RootRecord& root) {
  return root.state == RootState::kValidating || root.state == RootState::kDraining ||
         root.state == RootState::kClosing;
}

bool wait_until_synced(MeshSpec& spec) {
  std::mutex mutex;
  std::condition_variable changed;
  const Subscription subscription = spec.subscribe([&](const auto&) {
    const std::lock_guard lock(mutex);
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, kSyncBound, [&] { return spec.has_synced(); });
}

class Rotation final : public RootRotation {
 public:
  explicit Rotation(const RootRotationOptions& options)
      : options_(options), roots_(std::make_shared<RootSet>()), strand_(options.blocking) {}
  ~Rotation() override { stop(); }

  Status begin();

  std::unique_ptr<Issuer> issuer() override { return share(roots_); }

  void follow(const RotationParticipants& participants) override {
    {
      const std::lock_guard lock(mutex_);
      participants_ = std::make_shared<const RotationParticipants>(participants);
      followed_since_ = options_.clock.steady_now();
    }
    spec_changes_ = options_.spec.subscribe([this](const auto& keys) {
      if (std::any_of(keys.begin(), keys.end(),
                      [](const ObjectKey& key) { return key.kind == "MeshRootCertificate"; }))
        wake();
    });
    board_changes_ = options_.board.subscribe([this] { wake(); });
    wake();
  }

  void stop() override {
    spec_changes_ = {};
    board_changes_ = {};
    strand_.stop();
    timer_ = {};
  }

  TrustDomains trust_domains() const override {
    const std::lock_guard lock(mutex_);
    return domains_;
  }

  std::vector<RootStatus> status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  // A CA that an object describes, as far as it could be asked.
  struct Candidate {
    MeshRootCertificate described;
    std::shared_ptr<Issuer> issuer;
    TrustDomain of;  // whose names it signs
    std::string fault;
    SteadyTime asked_at{};
  };

  void wake() {
    if (awake_.exchange(true)) return;
    strand_.post([this] {
      awake_ = false;
      look();
    });
  }

  void look();
  TrustDomain domain_of_now() const;
  void ask_candidates();
  std::vector<RootWish> wishes() const;
  Status load();
  Status record(std::vector<RootRecord> next);
  Status check_own_domain() const;
  Status apply();
  void tell_domains();
  bool is_of_now(const certificate::Certificate& held) const;
  // Those that follow() was told, which look() comes after.
  std::shared_ptr<const RotationParticipants> participants() const {
    const std::lock_guard lock(mutex_);
    return participants_;
  }
  std::shared_ptr<Issuer> issuer_of(const std::string& name) const;
  Result<std::shared_ptr<Issuer>> signer(const RootRecord& root) const;
  ReplicaView see(std::size_t& workloads);
  void take_step(const ReplicaView& mine, std::size_t workloads);
  void recall(const certificate::CertificatePtr& example);
  certificate::CertificatePtr example() const;
  void publish_status();
  void report(const std::string& what, const Status& done);

  const RootRotationOptions options_;
  const std::shared_ptr<RootSet> roots_;

  mutable std::mutex mutex_;  // over the next four; the last changes on the strand only
  std::shared_ptr<const RotationParticipants> participants_;
  SteadyTime followed_since_{};  // set before the strand's first look
  TrustDomains domains_;
  std::vector<RootStatus> status_;

  // On the strand, and in begin().
  std::vector<RootRecord> records_;
  std::string version_;
  std::map<std::string, Candidate> candidates_;
  std::map<std::string, std::string> waiting_;
  std::string applied_;               // effect_of() the record that the roots were set by
  std::optional<TrustDomains> told_;  // that the control plane and the host follow
  std::string reported_;
  SteadyTime recalled_at_{};

  std::atomic<bool> awake_{false};
  Strand strand_;
  Subscription timer_;
  Subscription spec_changes_;
  Subscription board_changes_;
};

Status Rotation::begin() {
  if (Status read = load(); !read.ok()) return read;
  if (records_.empty()) {
    // Nothing was ever issued under a record: the host's own CA is the first.
    Status first = record({{.name = kOwnRoot,
                            .state = RootState::kSigning,
                            .since = options_.clock.wall_now(),
                            .signed_at = options_.clock.wall_now(),
                            .first_seen = options_.clock.wall_now(),
                            .bundle_pem = options_.own->trust_bundle_pem(),
                            .trust_domain = options_.trust_domain}});
    if (!first.ok() && first.error().code == ErrorCode::kConflict) first = load();  // another did
    if (!first.ok()) return first;
  }
  if (Status same = check_own_domain(); !same.ok()) return same;
  const auto signing = std::find_if(records_.begin(), records_.end(), [](const RootRecord& root) {
    return root.state == RootState::kSigning;
  });
  if (signing == records_.end())
    return Error{ErrorCode::kInvalidSyntax, "the rotation's record names no root that signs"};
  if (signing->name != kOwnRoot) {
    if (!wait_until_synced(options_.spec))
      return Error{ErrorCode::kUnavailable,
                   "MeshRootCertificate " + signing->name +
                       " signs, and the mesh's objects could not all be read within a minute: the "
                       "problems of their store say why"};
    ask_candidates();
  }
  return apply();
}

Status Rotation::load() {
  OSM_TRY(const RotationRecord::Text stored, options_.record.load());
  version_ = stored.version;
  if (stored.text.empty()) return {};
  OSM_TRY(records_, parse_records(stored.text));
  for (RootRecord& root : records_)  // written before a mesh could have several
    if (root.trust_domain == TrustDomain()) root.trust_domain = options_.trust_domain;
  return {};
}

Status Rotation::check_own_domain() const {
  for (const RootRecord& root : records_)
    if (root.name == kOwnRoot && is_trusted(root.state) &&
        root.trust_domain != options_.trust_domain)
      return Error{ErrorCode::kInvalidArgument,
                   "trust domain " + options_.trust_domain.str() + ": the mesh's is " +
                       root.trust_domain.str() +
                       "; start with that one (--trust-domain), and "
                       "change it by a MeshRootCertificate (docs/certificates.md)"};
  return {};
}

// Written down first: whoever starts now acts on it, whatever happens to this process.
Status Rotation::record(std::vector<RootRecord> next) {
  if (Status stored = options_.record.store({to_text(next), version_}); !stored.ok()) return stored;
  records_ = std::move(next);
  return load();
}

std::shared_ptr<Issuer> Rotation::issuer_of(const std::string& name) const {
  if (name == kOwnRoot) return options_.own;
  const auto at = candidates_.find(name);
  return at == candidates_.end() ? nullptr : at->second.issuer;
}

Result<std::shared_ptr<Issuer>> Rotation::signer(const RootRecord& root) const {
  if (std::shared_ptr<Issuer> issuer = issuer_of(root.name)) return issuer;
  const auto at = candidates_.find(root.name);
  return Error{ErrorCode::kNotFound,
               "MeshRootCertificate " + root.name + " signs, and " +
                   (at == candidates_.end() ? "is gone: create it again as it was"
                                            : "cannot be used: " + at->second.fault)};
}

Status Rotation::apply() {
  if (effect_of(records_) == applied_) return {};
  RootSet::Roots roots;
  const RootRecord* signing = nullptr;
  const RootRecord* before = nullptr;  // the last that signed before it, and is trusted yet
  for (const RootRecord& root : records_) {
    if (!is_trusted(root.state)) continue;
    if (roots.bundle_pem.find(root.bundle_pem) == std::string::npos)
      roots.bundle_pem += root.bundle_pem;
    if (root.state == RootState::kSigning)
      signing = &root;
    else if (root.signed_at != WallTime{} && (!before || root.signed_at > before->signed_at))
      before = &root;
  }
  if (!signing) return Error{ErrorCode::kInvalidSyntax, "the record names no root that signs"};
  OSM_TRY(roots.signer, signer(*signing));
  roots.controller_signer = before ? issuer_of(before->name) : nullptr;
  if (!roots.controller_signer) {
    roots.controller_signer = roots.signer;
    before = signing;
  }
  roots.domain = signing->trust_domain;
  roots.controller_domain = before->trust_domain;
  TrustDomains domains = domains_of(records_, before->trust_domain);
  {
    const std::lock_guard lock(mutex_);
    domains_ = std::move(domains);
  }
  roots_->set(std::move(roots));
  applied_ = effect_of(records_);
  return {};
}

void Rotation::tell_domains() {
  if (told_ == domains_) return;
  const auto with = participants();
  Status told;
  if (with->control_plane) told = with->control_plane->set_trust_domains(domains_);
  if (with->on_trust_domains)
    if (Status host = with->on_trust_domains(domains_); !host.ok()) told = host;
  if (told.ok()) told_ = domains_;
  report("name what it issues anew", told);
}

// Of the root that signs.
TrustDomain Rotation::domain_of_now() const {
  for (const RootRecord& root : records_)
    if (root.state == RootState::kSigning) return root.trust_domain;
  return options_.trust_domain;
}

// Makes the issuers of objects that are new, changed, or could not be asked before.
void Rotation::ask_candidates() {
  std::map<std::string, Candidate> known = std::exchange(candidates_, {});
  const SteadyTime now = options_.clock.steady_now();
  for (const auto& described : options_.spec.list_root_certificates()) {
    MeshRootCertificate root = *described;
    if (root.trust_domain == TrustDomain()) root.trust_domain = domain_of_now();
    bool needed = root.role != RootRole::kInactive;
    for (const RootRecord& recorded : records_)
      if (recorded.name == root.name && is_trusted(recorded.state)) {
        root.trust_domain = recorded.trust_domain;  // whom it signs for does not change under it
        needed = true;  // while it drains it signs what the control plane shows
      }
    Candidate& candidate = candidates_[described->name];
    if (const auto at = known.find(described->name);
        at != known.end() && at->second.described.provider == described->provider &&
        at->second.of == root.trust_domain)
      candidate = std::move(at->second);
    candidate.of = root.trust_domain;
    candidate.described = *described;
    if (candidate.issuer || !needed) continue;
    if (candidate.asked_at != SteadyTime{} && now - candidate.asked_at < kAskAgain) continue;
    candidate.asked_at = now;
    const std::string before = std::exchange(candidate.fault, {});
    if (auto made = options_.make_issuer(root); made.ok()) {
      candidate.issuer = *std::move(made);
    } else {
      candidate.fault = made.error().text();
    }
    if (!candidate.fault.empty() && candidate.fault != before)
      options_.log.warning("a root of the mesh cannot be used",
                           {{"root", described->name}, {"cause", candidate.fault}});
  }
}

std::vector<RootWish> Rotation::wishes() const {
  std::vector<RootWish> wishes;
  bool others = false;
  for (const auto& [name, candidate] : candidates_) {
    const RootRole role = candidate.described.role;
    others = others || role == RootRole::kActive;
    wishes.push_back({.name = name,
                      .role = role,
                      .bundle_pem = candidate.issuer ? candidate.issuer->trust_bundle_pem() : "",
                      .fault = candidate.fault,
                      .trust_domain = candidate.described.trust_domain == TrustDomain()
                                          ? candidate.of
                                          : candidate.described.trust_domain});
  }
  wishes.push_back({.name = kOwnRoot,
                    .role = others ? RootRole::kInactive : RootRole::kActive,
                    .bundle_pem = options_.own->trust_bundle_pem(),
                    .fault = {},
                    .trust_domain = options_.trust_domain});
  return wishes;
}

// Any certificate that the signing CA issued since: what the others are compared with.
certificate::CertificatePtr Rotation::example() const {
  for (const auto& held : participants()->manager.list_certificates())
    if (is_of_now(*held) && held->subject.usage != certificate::Usage::kController) return held;
  return nullptr;
}

// Whether the roots of now would give it the same name, and signed it.
bool Rotation::is_of_now(const certificate::Certificate& held) const {
  const bool shown_to_proxies = held.subject.usage == certificate::Usage::kController;
  return held.issuer_id == roots_->id() &&
         model::trust_domain_of(held.subject.spiffe_id) ==
             (shown_to_proxies ? domains_.controller : domains_.signing);
}

ReplicaView Rotation::see(std::size_t& workloads) {
  ReplicaView view{.follows = applied_, .lagging = {}};
  const auto with = participants();
  const std::string bundle = roots_->trust_bundle_pem(), id = roots_->id();
  for (const auto& held : with->manager.list_certificates())
    view.own_lag += !is_of_now(*held) || held->trust_bundle_pem != bundle;
  // Unknown holds the next step as one would that lags.
  if (with->kept_lag && with->leads()) view.own_lag += with->kept_lag().value_or(1);
  const certificate::CertificatePtr newest = example();
  if (!with->control_plane) return view;
  view.young = options_.clock.steady_now() - followed_since_ < kComeBack;
  const CertificateProgress progress = with->control_plane->certificate_progress(
      {.issuer_id = id,
       .issuer_key_id = newest ? certificate::issuer_key_id(newest->chain_pem) : "",
       .trust_bundle_pem = bundle,
       .trust_domains = domains_});
  workloads = progress.workloads;
  view.proxies = progress.proxies;
  view.bundle_lag = progress.bundle_lag;
  view.leaf_lag = progress.leaf_lag;
  view.lagging = progress.lagging;
  return view;
}

void Rotation::look() {
  report("read how far the rotation is", load());
  ask_candidates();
  report("follow the rotation", apply());
  tell_domains();
  std::size_t workloads = 0;
  ReplicaView mine = see(workloads);
  const bool moves = std::any_of(records_.begin(), records_.end(), in_motion);
  if (!moves)
    mine = {.follows = applied_, .proxies = 0, .lagging = {}};  // at rest it costs nothing
  report("tell the other replicas", options_.board.publish(kTopic, to_text(mine)));
  if (participants()->leads()) take_step(mine, workloads);
  if (moves) recall(example());
  publish_status();
  const bool still = std::none_of(records_.begin(), records_.end(), in_motion);
  timer_ = strand_.post_after(still ? kAtRest : kInMotion, [this] { look(); });
}

void Rotation::take_step(const ReplicaView& mine, std::size_t workloads) {
  auto views = options_.board.read(kTopic);
  if (!views.ok()) return report("hear of the other replicas", views.error());
  const seconds longest =
      std::max(kLongestLeaf, options_.spec.get_mesh_config().certificates.service_validity);
  RotationEvidence evidence = sum_up(*views, effect_of(records_), workloads);
  // What it says on the board is of before, unless it is what it sees.
  if (mine.follows != effect_of(records_)) evidence.complete = false;
  RotationStep step = next_step({records_, wishes(), evidence, options_.clock.wall_now(), longest});
  waiting_ = std::move(step.waiting);
  if (step.records == records_) return;
  const std::vector<RootRecord> before = records_;
  const Status recorded = record(std::move(step.records));
  report("record a step of the rotation", recorded);
  if (!recorded.ok()) return;
  for (const RootRecord& root : records_) {
    const auto was = std::find_if(before.begin(), before.end(),
                                  [&](const RootRecord& old) { return old.name == root.name; });
    if (was != before.end() && was->state == root.state) continue;
    options_.log.info("a root of the mesh is another one now",
                      {{"root", root.name}, {"state", std::string(root_state_text(root.state))}});
  }
  report("follow the rotation", apply());
  tell_domains();
  wake();
}

// Proxies that were given a newer proxy certificate show it when they connect again.
void Rotation::recall(const certificate::CertificatePtr& example) {
  const auto with = participants();
  const bool drains = std::any_of(records_.begin(), records_.end(), [](const RootRecord& root) {
    return root.state == RootState::kDraining;
  });
  const SteadyTime now = options_.clock.steady_now();
  if (!drains || !with->control_plane || !example || now - recalled_at_ < kRecall) return;
  recalled_at_ = now;
  with->control_plane->recall_proxies(certificate::issuer_key_id(example->chain_pem));
}

void Rotation::publish_status() {
  std::vector<RootStatus> all;
  for (const RootRecord& root : records_) {
    const auto at = candidates_.find(root.name);
    const auto waits = waiting_.find(root.name);
    all.push_back(
        {.name = root.name,
         .state = std::string(root_state_text(root.state)),
         .role = at == candidates_.end() ? "" : std::string(role_text(at->second.described.role)),
         .since = root.since,
         .waiting_for = waits == waiting_.end() ? "" : waits->second,
         .trust_domain = root.trust_domain});
  }
  const std::lock_guard lock(mutex_);
  status_ = std::move(all);
}

// Once, until it is another.
void Rotation::report(const std::string& what, const Status& done) {
  if (done.ok()) return;
  const std::string text = what + ": " + done.error().text();
  if (std::exchange(reported_, text) != text)
    options_.log.warning("the rotation of roots cannot " + what, {{"cause", done.error().text()}});
}

}  // namespace
}  // namespace root_rotation

Result<std::unique_ptr<RootRotation>> RootRotation::start(const RootRotationOptions& options) {
  auto rotation = std::make_unique<root_rotation::Rotation>(options);
  if (Status begun = rotation->begin(); !begun.ok()) return begun.error();
  return std::unique_ptr<RootRotation>(std::move(rotation));
}

}  // namespace osm::inline v1
