#include "osm/certificate/root_rotation.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/maps.hpp"
#include "base/openssl.hpp"
#include "base/strand.hpp"
#include "model/names.hpp"
#include "root_rotation/root_ends.hpp"
#include "root_rotation/root_set.hpp"
#include "root_rotation/rotation_text.hpp"
#include "root_rotation/target.hpp"

namespace osm::inline v1 {
namespace root_rotation {
namespace {

using certificate::Issuer;
using std::chrono::seconds;

constexpr const char* kTopic = "roots";
constexpr seconds kInMotion{1};  // time between looks while a step is awaited
constexpr seconds kAtRest{10};
constexpr seconds kSyncBound{60};
constexpr seconds kAskAgain{15};   // after a CA failed to answer
constexpr seconds kComeBack{120};  // in which proxies reconnect to a replica that started
// The longest life of leaves that were issued before a change of MeshConfig.
constexpr seconds kLongestLeaf = std::chrono::hours(48);

std::string_view role_text(RootRole role) {
  if (role == RootRole::kActive) return "active";
  return role == RootRole::kPassive ? "passive" : "inactive";
}

const RootRecord* find(const std::vector<RootRecord>& records, RootState state) {
  const auto at =
      std::ranges::find_if(records, [&](const RootRecord& root) { return root.state == state; });
  return at == records.end() ? nullptr : &*at;
}

bool in_motion(const std::vector<RootRecord>& records) {
  return find(records, RootState::kValidating) || find(records, RootState::kDraining) ||
         find(records, RootState::kClosing);
}

// The reason why `bundle_pem` must not become trusted for this object; empty: none. Whoever answers
// at an address that is Vault's, or takes the name of an Issuer, would otherwise be trusted.
std::string unpinned(const MeshRootCertificate& root, const std::string& bundle_pem) {
  if (root.root_fingerprints.empty() && std::holds_alternative<TresorProvider>(root.provider))
    return {};
  const openssl::CleanErrorQueue clean;
  const auto certificates = openssl::parse_certificates(bundle_pem);
  if (!certificates.ok()) return certificates.error().text();
  for (const openssl::X509Handle& certificate : *certificates) {
    const auto fingerprint = openssl::fingerprint(*certificate);
    if (!fingerprint.ok()) return fingerprint.error().text();
    if (std::ranges::find(root.root_fingerprints, *fingerprint) == root.root_fingerprints.end())
      return "its CA shows a root with SHA-256 " + *fingerprint +
             ": if that is the CA's own fingerprint, add it to spec.rootFingerprints";
  }
  return {};
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
      : options_(options),
        own_board_(options.board ? nullptr : make_local_board("", options.runtime.blocking)),
        board_(options.board ? *options.board : *own_board_),
        roots_(std::make_shared<RootSet>()),
        end_metric_(options.runtime.metrics),
        strand_(options.runtime.blocking) {}
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
      if (!wait_until_synced(options_.spec))
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
    spec_changes_ = options_.spec.subscribe([this](const auto& keys) {
      if (std::ranges::any_of(
              keys, [](const ObjectKey& key) { return key.is(kinds::kMeshRootCertificate); }))
        wake();
    });
    board_changes_ = board_.subscribe([this] { wake(); });
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
  // An object's CA, as far as it answered.
  struct Candidate {
    MeshRootCertificate described;
    std::shared_ptr<Issuer> issuer;
    TrustDomain domain;  // of the names that it signs
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

  void look() {
    report("read its record", load());
    ask_candidates();
    report("act on its record", apply());
    tell_domains();
    const ReplicaView mine = see();
    const bool moves = in_motion(records_);
    // No writes to the board at rest.
    report("tell the other replicas",
           board_.publish(kTopic, to_text(moves ? mine : ReplicaView{.follows = applied_})));
    if (leads()) take_step(mine);
    if (moves) recall(example());
    publish_status();
    timer_ = strand_.post_after(in_motion(records_) ? kInMotion : kAtRest, [this] { look(); });
  }

  TrustDomain signing_domain() const {
    const RootRecord* const signing = find(records_, RootState::kSigning);
    return signing ? signing->trust_domain : options_.trust_domain;
  }

  // Opens the issuers of new and changed objects, and of those that failed before.
  void ask_candidates() {
    std::map<std::string, Candidate> known = std::exchange(candidates_, {});
    const SteadyTime now = options_.runtime.clock.steady_now();
    for (const auto& described : options_.spec.list_root_certificates()) {
      MeshRootCertificate root = *described;
      if (root.trust_domain == TrustDomain()) root.trust_domain = signing_domain();
      bool needed = root.role != RootRole::kInactive;
      for (const RootRecord& recorded : records_)
        if (recorded.name == root.name && is_trusted(recorded.state)) {
          root.trust_domain = recorded.trust_domain;  // a root in use keeps its domain
          needed = true;  // a draining root signs the control plane's own certificate
        }
      Candidate& candidate = candidates_[described->name];
      if (Candidate* before = find_in(known, described->name);
          before && before->described.provider == described->provider &&
          before->domain == root.trust_domain)
        candidate = std::move(*before);
      candidate.domain = root.trust_domain;
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
        options_.runtime.log.warning("a root of the mesh cannot be used",
                                     {{"root", described->name}, {"cause", candidate.fault}});
    }
  }

  std::vector<RootWish> wishes() const {
    std::vector<RootWish> wishes;
    bool others = false;
    for (const auto& [name, candidate] : candidates_) {
      const RootRole role = candidate.described.role;
      others = others || role == RootRole::kActive;
      std::string bundle = candidate.issuer ? candidate.issuer->trust_bundle_pem() : "";
      std::string fault =
          candidate.issuer ? unpinned(candidate.described, bundle) : candidate.fault;
      if (!fault.empty()) bundle.clear();
      wishes.push_back({.name = name,
                        .role = role,
                        .bundle_pem = std::move(bundle),
                        .fault = std::move(fault),
                        .trust_domain = candidate.described.trust_domain == TrustDomain()
                                            ? candidate.domain
                                            : candidate.described.trust_domain});
    }
    wishes.push_back({.name = kOwnRoot,
                      .role = others ? RootRole::kInactive : RootRole::kActive,
                      .bundle_pem = options_.own->trust_bundle_pem(),
                      .fault = {},
                      .trust_domain = options_.trust_domain});
    return wishes;
  }

  Status load() {
    OSM_TRY(const RotationRecord::Text stored, options_.record.load());
    version_ = stored.version;
    if (stored.text.empty()) return {};
    OSM_TRY(records_, parse_records(stored.text));
    for (RootRecord& root : records_)  // a record from before a mesh could have several domains
      if (root.trust_domain == TrustDomain()) root.trust_domain = options_.trust_domain;
    return {};
  }

  // A step is recorded before it takes effect, so that a process that starts later acts on it.
  Status record(std::vector<RootRecord> next) {
    OSM_TRY(options_.record.store({to_text(next), version_}));
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

  bool leads() const { return !participants_->leads || participants_->leads(); }
  std::shared_ptr<Issuer> issuer_of(const std::string& name) const {
    if (name == kOwnRoot) return options_.own;
    const Candidate* candidate = find_in(candidates_, name);
    return candidate ? candidate->issuer : nullptr;
  }

  Result<std::shared_ptr<Issuer>> signer(const RootRecord& root) const {
    if (std::shared_ptr<Issuer> issuer = issuer_of(root.name)) return issuer;
    const Candidate* candidate = find_in(candidates_, root.name);
    return Error{ErrorCode::kNotFound, "MeshRootCertificate " + root.name + " signs, and " +
                                           (candidate ? "cannot be used: " + candidate->fault
                                                      : "is gone: create it again as it was")};
  }

  ReplicaView see() {
    ReplicaView view{.follows = applied_};
    const std::string bundle = roots_->trust_bundle_pem(), id = roots_->id();
    for (const auto& held : participants_->manager.list_certificates())
      view.own_lag += !is_current(*held);
    // An unknown number holds the next step, as a lagging certificate does.
    if (participants_->kept_lag && leads()) view.own_lag += participants_->kept_lag().value_or(1);
    if (!target_) return view;
    const certificate::CertificatePtr newest = example();
    view.young = options_.runtime.clock.steady_now() - followed_since_ < kComeBack;
    const auto progress =
        target_->certificate_progress({.issuer_id = id,
                                       .issuer_key_id = newest ? newest->issuer_key_id : "",
                                       .trust_bundle_pem = bundle,
                                       .trust_domains = domains_});
    if (!progress.ok()) {
      report("ask the control plane about its proxies", progress.error());
      view.proxies.bundle_lag = view.proxies.leaf_lag = 1;  // holds the next step
      return view;
    }
    view.proxies = *progress;
    return view;
  }

  void take_step(const ReplicaView& mine) {
    auto views = board_.read(kTopic);
    if (!views.ok()) return report("read the other replicas' reports", views.error());
    const seconds longest =
        std::max(kLongestLeaf, options_.spec.get_mesh_config().certificates.service_validity);
    RotationEvidence evidence = sum_up(*views, effect_of(records_), mine.proxies.workloads);
    // This replica's report may be of an earlier record.
    if (mine.follows != effect_of(records_)) evidence.complete = false;
    RotationStep step =
        next_step({records_, wishes(), evidence, options_.runtime.clock.wall_now(), longest});
    waiting_ = std::move(step.waiting);
    if (step.records == records_) return;
    const std::vector<RootRecord> before = records_;
    const Status recorded = record(std::move(step.records));
    report("record a step", recorded);
    if (!recorded.ok()) return;
    for (const RootRecord& root : records_) {
      const auto was = std::ranges::find_if(
          before, [&](const RootRecord& old) { return old.name == root.name; });
      if (was != before.end() && was->state == root.state) continue;
      options_.runtime.log.info(
          "a root of the mesh has another state",
          {{"root", root.name}, {"state", std::string(root_state_text(root.state))}});
    }
    report("act on its record", apply());
    tell_domains();
    wake();
  }

  // A proxy shows a newer proxy certificate only when it connects again.
  void recall(const certificate::CertificatePtr& example) {
    const SteadyTime now = options_.runtime.clock.steady_now();
    if (!target_ || !example || !find(records_, RootState::kDraining) ||
        now - recalled_at_ < options_.proxy_recall_interval)
      return;
    recalled_at_ = now;
    target_->recall_proxies(example->issuer_key_id);
  }

  // Any certificate of the signing CA: it shows the key id that the other certificates must have.
  certificate::CertificatePtr example() const {
    for (const auto& held : participants_->manager.list_certificates())
      if (is_current(*held) && held->subject.usage != certificate::Usage::kController) return held;
    return nullptr;
  }

  void publish_status() {
    std::vector<RootStatus> all;
    for (const RootRecord& root : records_) {
      const Candidate* candidate = find_in(candidates_, root.name);
      const std::string* waits = find_in(waiting_, root.name);
      all.push_back({.name = root.name,
                     .state = std::string(root_state_text(root.state)),
                     .role = candidate ? std::string(role_text(candidate->described.role)) : "",
                     .since = root.since,
                     .waiting_for = waits ? *waits : "",
                     .trust_domain = root.trust_domain});
      fill_in_end(all.back(), root, issuer_of(root.name).get());
    }
    end_metric_.set(all);
    std::vector<Problem> problems = problems_of(all, options_.runtime.clock.wall_now());
    {
      const std::lock_guard lock(mutex_);
      status_ = std::move(all);
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

  mutable std::mutex mutex_;  // over the next five; the last two change on the strand only
  Target* target_ = nullptr;  // this, and the next two, are set before the strand's first look
  std::shared_ptr<const RotationParticipants> participants_;
  SteadyTime followed_since_{};
  TrustDomains domains_;
  std::vector<RootStatus> status_;

  // Used on the strand, and in begin().
  std::vector<RootRecord> records_;
  std::string version_;
  std::map<std::string, Candidate> candidates_;
  std::map<std::string, std::string> waiting_;
  std::string applied_;               // effect_of() the record that roots_ is set by
  std::optional<TrustDomains> told_;  // to the control plane and the host
  std::string reported_;
  SteadyTime recalled_at_{};
  RootEndMetric end_metric_;
  std::vector<Problem> problems_;  // as the control plane knows them

  std::atomic<bool> awake_{false};
  Strand strand_;
  Subscription timer_;
  Subscription spec_changes_;
  Subscription board_changes_;
};

}  // namespace
}  // namespace root_rotation

Result<std::unique_ptr<RootRotation>> RootRotation::start(const RootRotationOptions& options) {
  auto rotation = std::make_unique<root_rotation::Rotation>(options);
  OSM_TRY(rotation->begin());
  return std::unique_ptr<RootRotation>(std::move(rotation));
}

}  // namespace osm::inline v1
