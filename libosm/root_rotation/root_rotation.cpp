#include "osm/certificate/root_rotation.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/maps.hpp"
#include "base/round.hpp"
#include "base/strand.hpp"
#include "model/names.hpp"
#include "root_rotation/candidates.hpp"
#include "root_rotation/recall_gate.hpp"
#include "root_rotation/root_ends.hpp"
#include "root_rotation/root_set.hpp"
#include "root_rotation/rotation_text.hpp"
#include "root_rotation/target.hpp"

namespace osm::inline v1 {
namespace root_rotation {
namespace {

constexpr Gauge kCaSigns{"osm_ca_signs", "1 while the CA signs, as far as it was asked"};

using certificate::Issuer;
using std::chrono::seconds;

constexpr const char* kTopic = "roots";
constexpr seconds kInMotion{1};  // time between looks while a step is awaited
constexpr seconds kAtRest{10};
// At rest the record is read this often, and whenever another replica's report or an object of the
// mesh changed.
constexpr seconds kRead{60};
constexpr seconds kSyncBound{60};
constexpr seconds kMetSpacing{60};  // between two writes of proxies that connected first
// Time in which proxies reconnect to a replica that started; max_wait if that is shorter.
constexpr seconds kComeBack{120};
// The longest life of leaves that were issued before a change of MeshConfig.
constexpr seconds kLongestLeaf = std::chrono::hours(48);

class Rotation final : public RootRotation {
 public:
  explicit Rotation(const RootRotationOptions& options)
      : options_(options),
        own_board_(options.board ? nullptr : make_local_board("", options.runtime.blocking)),
        board_(options.board ? *options.board : *own_board_),
        roots_(std::make_shared<RootSet>(options.runtime.clock)),
        candidates_(options_),
        recalls_(options.proxy_recall_interval),
        end_metric_(options.runtime.metrics),
        strand_(options.runtime.blocking),
        round_(strand_, options.runtime.rng, {.turn = [this] { return look(); }}) {}
  ~Rotation() override { stop(); }

  Status begin() {
    OSM_TRY(load());
    if (records_.empty()) {
      // No record yet, so no certificate of another root: the host's own CA is the first.
      const WallTime now = options_.runtime.clock.wall_now();
      Status first = record({{.name = kOwnRoot,
                              .state = RootState::kSigning,
                              .since = now,
                              .signed_at = now,
                              .first_seen = now,
                              .bundle_pem = options_.own->trust_bundle_pem(),
                              .trust_domain = options_.trust_domain}});
      // On a conflict another replica has recorded it.
      if (!first.ok() && first.error().code == ErrorCode::kConflict) first = load();
      OSM_TRY(first);
    }
    OSM_TRY(check_own_domain());
    const RootRecord* const signing = find(records_, RootState::kSigning);
    if (signing && signing->name != kOwnRoot) {
      if (!wait_until_synced(options_.spec, kSyncBound))
        return Error{
            ErrorCode::kUnavailable,
            "MeshRootCertificate " + signing->name +
                " signs, and the mesh's objects could not all be read within a minute: the "
                "problems of their store say why"};
      ask_candidates();
    }
    return apply();
  }

  std::shared_ptr<Issuer> issuer() override { return roots_; }

  Status attach(Target& control_plane) override {
    const std::lock_guard lock(mutex_);
    if (target_ || participants_)
      return Error{ErrorCode::kInvalidArgument,
                   "RootRotation: it takes one control plane, before follow() is called"};
    target_ = &control_plane;
    return {};
  }

  void follow(const RotationParticipants& participants) override {
    {
      const std::lock_guard lock(mutex_);
      participants_ = std::make_shared<const RotationParticipants>(participants);
      followed_since_ = options_.runtime.clock.steady_now();
    }
    spec_changes_ = options_.spec.subscribe([this](const SpecChange& change) {
      if (std::ranges::any_of(change.keys, [](const ObjectKey& key) {
            return key.is(kinds::kMeshRootCertificate);
          }))
        wake();
    });
    board_changes_ = board_.subscribe([this] {
      strand_.post([this] {  // the change may be of another topic
        const auto views = board_.read(kTopic);
        if (views.ok() && *views != heard_) wake();
      });
    });
    stands_ = board_.stand({});
    wake();
  }

  void stop() override {
    spec_changes_ = {};
    board_changes_ = {};
    strand_.stop();
    stands_ = {};  // no step is under way when another replica begins
  }

  TrustDomains trust_domains() const override {
    const std::lock_guard lock(mutex_);
    return domains_;
  }

  std::vector<RootStatus> status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  Result<DistrustEffect> distrust(const std::string& root, bool now) override {
    const std::lock_guard lock(mutex_);
    OSM_TRY(const std::vector<RootRecord> after, root_rotation::distrust(last_seen_, root));
    const RootRecord* const signing = find(last_seen_.records, RootState::kSigning);
    DistrustEffect effect = effect_on_others_;
    effect.signs = signing && signing->name == root;
    if (effect.signs) effect.proxies = connected_;
    if (now) {
      distrusted_.insert(root);
      wake();
    }
    return effect;
  }

 private:
  void wake() {
    news_ = true;
    round_.wake();
  }

  Pause look() {
    const bool waits = in_motion(records_) || cut_ || !unrecorded_.empty();
    if (news_.exchange(false) || waits || options_.runtime.clock.steady_now() - read_at_ >= kRead)
      report("read its record", load());
    ask_candidates();
    report("act on its record", apply());
    tell_domains();
    const bool leads = board_.leads();  // asked once: what see() leaves out must not lead to a step
    const ReplicaView mine = see(leads);
    const bool moves = in_motion(records_);
    tell_replicas(mine, moves);
    const bool asked = take_distrust();
    hear_replicas(mine, leads);
    if (moves || cut_) recall(example());
    publish_status(mine);
    return {asked || cut_ || in_motion(records_) ? kInMotion : kAtRest};
  }

  RotationInput input(RotationEvidence evidence) const {
    return {records_,
            candidates_.wishes(),
            std::move(evidence),
            options_.runtime.clock.wall_now(),
            std::max(kLongestLeaf, options_.spec.get_mesh_config().certificates.service_validity),
            options_.max_wait};
  }

  // Any replica takes this step; the record's version keeps two from taking different ones.
  // Result: true if some of it is left to do.
  bool take_distrust() {
    std::set<std::string> asked;
    {
      const std::lock_guard lock(mutex_);
      asked = distrusted_;
    }
    for (const std::string& name : asked) {
      const auto next = root_rotation::distrust(input({}), name);
      const Status done = next.ok() ? record(*next) : Status(next.error());
      report("distrust root " + name, done);
      if (!done.ok()) continue;
      options_.runtime.log.warning("a root of the mesh is distrusted", {{"root", name}});
      report("act on its record", apply());
      cut_ = true;
      const std::lock_guard lock(mutex_);
      distrusted_.erase(name);
    }
    if (!asked.empty()) tell_domains();
    const std::lock_guard lock(mutex_);
    return !distrusted_.empty();
  }

  Status load() {
    read_at_ = {};
    OSM_TRY(const TextRecord::Text stored, options_.record.load());
    version_ = stored.version;
    if (stored.text.empty()) return {};
    OSM_TRY(records_, parse_records(stored.text));
    read_at_ = options_.runtime.clock.steady_now();
    met_ = recorded_ = parse_met(stored.text);
    for (RootRecord& root : records_)  // a record from before a mesh could have several domains
      if (root.trust_domain == TrustDomain()) root.trust_domain = options_.trust_domain;
    return {};
  }

  void ask_candidates() {
    const RootRecord* const signing = find(records_, RootState::kSigning);
    candidates_.ask(records_, signing ? signing->trust_domain : options_.trust_domain);
  }

  // A step is recorded before it takes effect, so that a process that starts later acts on it. Nor
  // must that process take a proxy that is away now for one that never came.
  Status record(std::vector<RootRecord> next) {
    OSM_TRY(options_.record.store({to_text(next, met_), version_}));
    records_ = std::move(next);
    return load();
  }

  Status check_own_domain() const {
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

  Status apply() {
    if (effect_of(records_) == applied_) return {};
    RootSet::Roots roots;
    const RootRecord* const signing = find(records_, RootState::kSigning);
    if (!signing)
      return Error{ErrorCode::kInvalidSyntax, "the rotation's record names no root that signs"};
    const RootRecord* before = nullptr;  // the root that signed before, if it is still trusted
    for (const RootRecord& root : records_) {
      if (!is_trusted(root.state)) continue;
      if (roots.bundle_pem.find(root.bundle_pem) == std::string::npos)
        roots.bundle_pem += root.bundle_pem;
      if (&root != signing && root.signed_at != WallTime{} &&
          (!before || root.signed_at > before->signed_at))
        before = &root;
    }
    OSM_TRY(roots.signer, candidates_.signer(signing->name));
    roots.controller_signer = before ? candidates_.issuer_of(before->name) : nullptr;
    if (!roots.controller_signer) {
      roots.controller_signer = roots.signer;
      before = signing;
    }
    roots.domain = signing->trust_domain;
    roots.controller_domain = before->trust_domain;
    roots.name = signing->name;
    roots.controller_name = before->name;
    TrustDomains domains = domains_of(records_, before->trust_domain);
    {
      const std::lock_guard lock(mutex_);
      domains_ = std::move(domains);
    }
    roots_->set(std::move(roots));
    applied_ = effect_of(records_);
    return {};
  }

  void tell_domains() {
    if (told_ == domains_) return;
    Status told;
    if (target_) told = target_->set_trust_domains(domains_);
    if (participants_->on_trust_domains)
      if (Status host = participants_->on_trust_domains(domains_); !host.ok()) told = host;
    if (told.ok()) told_ = domains_;
    report("name what it issues anew", told);
  }

  // The present roots signed this certificate, and would give it the same name again.
  bool is_current(const certificate::Certificate& held) const {
    const bool shown_to_proxies = held.subject.usage == certificate::Usage::kController;
    return held.issuer_id == roots_->id() &&
           model::trust_domain_of(held.subject.spiffe_id) ==
               (shown_to_proxies ? domains_.controller : domains_.signing);
  }

  ReplicaView see(bool leads) {
    ReplicaView view{.follows = applied_, .latest_not_after = roots_->latest_not_after()};
    const std::string bundle = roots_->trust_bundle_pem(), id = roots_->id();
    for (const auto& held : participants_->manager.list_certificates())
      view.own_lag += !is_current(*held);
    // An unknown number holds the next step, as a lagging certificate does.
    if (participants_->kept_lag && leads) view.own_lag += participants_->kept_lag().value_or(1);
    if (!target_) return view;
    const certificate::CertificatePtr newest = example();
    view.young = options_.runtime.clock.steady_now() - followed_since_ <
                 std::min(kComeBack, options_.max_wait);
    auto progress =
        target_->certificate_progress({.issuer_id = id,
                                       .issuer_key_id = newest ? newest->issuer_key_id : "",
                                       .trust_bundle_pem = bundle,
                                       .trust_domains = domains_});
    if (!progress.ok()) report("ask the control plane about its proxies", progress.error());
    progress_ = progress.ok() ? *std::move(progress) : model::CertificateProgress{.known = false};
    if (!progress_.known) view.follows = {};  // holds the next step
    add_proxies(view, progress_, recorded_, unrecorded_);
    return view;
  }

  void tell_replicas(ReplicaView mine, bool moves) {
    const SteadyTime now = options_.runtime.clock.steady_now();
    // At rest, a report changes with the first connection of a proxy: at most every 10 s. A record
    // that this replica follows now is told of at once, since the others read it then.
    if (!moves) {
      if (now - told_at_ < kAtRest && mine.follows == told_follows_) return;
      mine = {.follows = mine.follows, .latest_not_after = std::move(mine.latest_not_after)};
    }
    for (const auto& [number, proxy] : unrecorded_) mine.proxies.try_emplace(number, 0);
    told_at_ = now;
    told_follows_ = mine.follows;
    report("tell the other replicas", board_.publish(kTopic, to_text(mine)));
  }

  // Every replica listens, so that each can lead.
  void hear_replicas(ReplicaView mine, bool led) {
    auto views = board_.read(kTopic);
    if (!views.ok()) return report("read the other replicas' reports", views.error());
    heard_ = *std::move(views);
    if (!led || !board_.leads()) return;
    for (const ProxyNumber proxy : met_) mine.proxies.try_emplace(proxy, 0);
    const std::string effect = effect_of(records_);
    // Its own proxies count from here: its report may have no room for all.
    ReplicaViews all = sum_up(heard_, effect, progress_.workloads, std::move(mine.proxies));
    if (progress_.known) met_ = std::move(all.met);
    // This replica's report may be of an earlier record.
    if (mine.follows != effect) all.evidence.complete = false;
    take_step(std::move(all));
  }

  void take_step(ReplicaViews all) {
    RotationInput seen = input(std::move(all.evidence));
    for (RootRecord& root : seen.records)
      root.latest_not_after = std::max(root.latest_not_after, all.latest_not_after[root.name]);
    RotationStep step = next_step(seen);
    waiting_ = std::move(step.waiting);
    const SteadyTime now = options_.runtime.clock.steady_now();
    const bool met_is_due = recorded_.size() < kMostMet && now - recorded_at_ >= kMetSpacing &&
                            !std::ranges::includes(recorded_, met_);
    if (step.records == records_ && !met_is_due) return;
    const std::vector<RootRecord> before = records_;
    const Status recorded = record(std::move(step.records));
    report("record a step", recorded);
    if (!recorded.ok()) return;
    recorded_at_ = now;
    for (const RootRecord& root : records_) {
      const auto was = std::ranges::find(before, root.name, &RootRecord::name);
      if (!root.left_behind.empty() &&
          (was == before.end() || was->left_behind != root.left_behind))
        options_.runtime.log.warning("root rotation goes on without some proxies",
                                     {{"root", root.name}, {"proxies", root.left_behind}});
      if (was != before.end() && was->state == root.state) continue;
      options_.runtime.log.info(
          "a root of the mesh has another state",
          {{"root", root.name}, {"state", std::string(root_state_text(root.state))}});
    }
    report("act on its record", apply());
    tell_domains();
    wake();
  }

  void recall(const certificate::CertificatePtr& example) {
    if (!target_ || !example) return;
    const bool due = recalls_.due(find(records_, RootState::kDraining), lag_of(heard_),
                                  options_.runtime.clock.steady_now());
    if (std::exchange(cut_, false) || due) target_->recall_proxies(example->issuer_key_id);
  }

  // Any certificate of the signing CA: it shows the key id that the other certificates must have.
  certificate::CertificatePtr example() const {
    for (const auto& held : participants_->manager.list_certificates())
      if (is_current(*held) && held->subject.usage != certificate::Usage::kController) return held;
    return nullptr;
  }

  void publish_status(const ReplicaView& mine) {
    std::vector<RootStatus> all;
    for (const RootRecord& root : records_) {
      const std::string* waits = find_in(waiting_, root.name);
      all.push_back({.name = root.name,
                     .state = std::string(root_state_text(root.state)),
                     .role = candidates_.role_of(root.name),
                     .since = root.since,
                     .waiting_for = waits ? *waits : "",
                     .left_behind = root.left_behind,
                     .trust_domain = root.trust_domain});
      if (root.latest_not_after != WallTime{}) all.back().latest_not_after = root.latest_not_after;
      fill_in_end(all.back(), root, candidates_.issuer_of(root.name).get());
    }
    end_metric_.set(all);
    options_.runtime.metrics.set(kCaSigns, {}, roots_->health().ok() ? 1 : 0);
    std::vector<Problem> problems = problems_of(all, options_.runtime.clock.wall_now());
    RotationInput seen = input({});
    {
      const std::lock_guard lock(mutex_);
      status_ = std::move(all);
      last_seen_ = std::move(seen);
      effect_on_others_ = {
          .proxies = progress_.leaf_lag(), .bundles = progress_.bundle_lag(), .some = mine.lagging};
      connected_ = progress_.proxies.size();
    }
    if (std::exchange(problems_, problems) != problems && target_) target_->root_problems_changed();
  }

  // Logs a failure once, until another failure follows.
  void report(const std::string& action, const Status& done) {
    if (done.ok()) return;
    const std::string text = action + ": " + done.error().text();
    if (std::exchange(reported_, text) != text)
      options_.runtime.log.warning("root rotation cannot " + action,
                                   {{"cause", done.error().text()}});
  }

  const RootRotationOptions options_;
  const std::unique_ptr<ReplicaBoard> own_board_;  // null: the host has one
  ReplicaBoard& board_;
  const std::shared_ptr<RootSet> roots_;

  mutable std::mutex mutex_;  // over the next nine; the last six change on the strand, or are
                              // asked for by distrust()
  Target* target_ = nullptr;  // this, and the next two, are set before the strand's first look
  std::shared_ptr<const RotationParticipants> participants_;
  SteadyTime followed_since_{};
  TrustDomains domains_;
  std::vector<RootStatus> status_;
  RotationInput last_seen_{};
  DistrustEffect effect_on_others_;   // of a root that does not sign
  std::size_t connected_ = 0;         // proxies of this replica
  std::set<std::string> distrusted_;  // asked for, and not recorded yet

  // Used on the strand, and in begin().
  std::vector<RootRecord> records_;
  std::string version_;
  Candidates candidates_;
  std::map<std::string, std::string> waiting_;
  model::CertificateProgress progress_{.known = false};
  std::set<ProxyNumber> met_;       // workloads of the mesh whose proxy was connected once
  std::set<ProxyNumber> recorded_;  // those in the record
  std::map<ProxyNumber, model::ProxyKey> unrecorded_;  // were connected here, not in the record
  std::map<std::string, std::string> heard_;           // the replicas' reports
  SteadyTime told_at_{}, recorded_at_{};               // last report, record
  SteadyTime read_at_{};                               // of the record; none: it must be read
  std::string told_follows_;                           // in the last report
  RecallGate recalls_;
  std::string applied_;               // effect_of() the record that roots_ is set by
  std::optional<TrustDomains> told_;  // to the control plane and the host
  std::string reported_;
  RootEndMetric end_metric_;
  std::vector<Problem> problems_;  // as the control plane knows them
  bool cut_ = false;  // proxies with a certificate of a distrusted root are to be recalled

  std::atomic<bool> news_{false};  // since the record was read
  Strand strand_;
  Round round_;
  Subscription spec_changes_;
  Subscription board_changes_;
  Subscription stands_;
};

}  // namespace
}  // namespace root_rotation

Result<std::unique_ptr<RootRotation>> RootRotation::start(const RootRotationOptions& options) {
  auto rotation = std::make_unique<root_rotation::Rotation>(options);
  OSM_TRY(rotation->begin());
  return std::unique_ptr<RootRotation>(std::move(rotation));
}

}  // namespace osm::inline v1
