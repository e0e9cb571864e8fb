#include "nack_provenance/nack_provenance.hpp"

#include <algorithm>
#include <set>

#include "nack_provenance/refusal_words.hpp"
#include "nack_provenance/still_allowed.hpp"

namespace osm::inline v1::nack_provenance {
namespace {

constexpr std::chrono::milliseconds kWitnessRetry{100};
constexpr int kWitnessLooks = 30;
constexpr std::chrono::seconds kReleaseBound{5};
constexpr const char* kKeepsTooMuch =
    "; the configuration that it keeps is of a mode that the MeshConfig has turned off";

const char* outcome_text(ads::TrialResult::Outcome outcome) {
  switch (outcome) {
    case ads::TrialResult::Outcome::kAccepted:
      return "accepted";
    case ads::TrialResult::Outcome::kRefused:
      return "refused";
    case ads::TrialResult::Outcome::kGone:
      return "gone";
    case ads::TrialResult::Outcome::kTimedOut:
      return "timed-out";
  }
  return "";
}

// Whether `now` has the object as it is in `then`.
bool holds(const model::SpecObjects& now, const model::SpecObjects& then, const ObjectKey& object) {
  const std::vector<ObjectKey> differ = model::new_in(now, model::only(then, object));
  return std::find(differ.begin(), differ.end(), object) == differ.end();
}

}  // namespace

NackProvenance::NackProvenance(const NackProvenanceOptions& options)
    : options_(options), strand_(options.executor) {
  published_ = options_.snapshots.subscribe(
      [this](const auto& snapshot) { strand_.post([this, snapshot] { on_snapshot(snapshot); }); });
  refused_ = options_.proxies.subscribe_refusals([this](const ads::Refusal& refusal) {
    strand_.post([this, refusal] { on_refusal(refusal); });
  });
  strand_.post([this] { on_snapshot(options_.snapshots.load()); });
}

NackProvenance::~NackProvenance() { stop(); }

void NackProvenance::stop() {
  published_.reset();
  refused_.reset();
  strand_.stop();
}

template <class Step>
auto NackProvenance::in_this_case(Step step) {
  return [this, number = case_->number, step](const auto&... result) {
    strand_.post([this, number, step, result...] {
      if (case_ && case_->number == number) step(result...);
    });
  };
}

// --- what happens ---

void NackProvenance::on_snapshot(const std::shared_ptr<const model::MeshSnapshot>& snapshot) {
  if (!snapshot || snapshot->generation <= generation_) return;
  generation_ = snapshot->generation;
  if (history_.empty() || history_.back().second != snapshot->objects)
    history_.emplace_back(generation_, snapshot->objects);
  if (history_.size() > kRemembered) history_.pop_front();
  if (!case_ || !case_->search) return;
  if (case_->withheld) {
    if (holds(*snapshot->objects, *case_->after, *case_->withheld)) return;
    refusers_.erase(case_->proxy);
    close(generation_);
  } else if (outdated(*snapshot->objects)) {
    close(generation_);  // what it refuses by now, another look will tell
  }
}

// Whether a suspect is not what it was when the search began, or any object allows less by now.
bool NackProvenance::outdated(const model::SpecObjects& now) const {
  if (!model::new_in(still_allowed(*case_->after, now), *case_->after).empty()) return true;
  const std::vector<ObjectKey> differ = model::new_in(now, *case_->after);
  const std::vector<ObjectKey>& suspects = case_->search->suspects;
  return std::any_of(differ.begin(), differ.end(), [&](const ObjectKey& key) {
    return std::find(suspects.begin(), suspects.end(), key) != suspects.end();
  });
}

void NackProvenance::on_refusal(const ads::Refusal& refusal) {
  const auto [at, fresh] = refusers_.try_emplace(refusal.proxy);
  at->second.refusal = refusal;
  if (fresh) at->second.ready_at = options_.clock.steady_now();
  take_next();
}

// --- one case after the other ---

void NackProvenance::take_next() {
  if (case_ || refusers_.empty()) return;
  const auto first = std::min_element(
      refusers_.begin(), refusers_.end(),
      [](const auto& a, const auto& b) { return a.second.ready_at < b.second.ready_at; });
  const SteadyTime now = options_.clock.steady_now();
  if (first->second.ready_at > now) {
    timer_ = strand_.post_after(first->second.ready_at - now, [this] { take_next(); });
    return;
  }
  case_ = Case();
  case_->number = ++last_case_;
  case_->proxy = first->first;
  case_->refusal = first->second.refusal;
  options_.proxies.try_on(case_->proxy, nullptr,
                          in_this_case([this](const ads::TrialResult& r) { examined(r); }));
}

// What the proxy makes of the newest mesh.
void NackProvenance::examined(const ads::TrialResult& result) {
  using Outcome = ads::TrialResult::Outcome;
  if (result.outcome == Outcome::kTimedOut) return blame_proxy("it does not answer");
  if (result.outcome != Outcome::kRefused) {
    refusers_.erase(case_->proxy);
    return close(0);
  }
  on_snapshot(options_.snapshots.load());  // it may not have come this way yet
  case_->refusal.type = result.type;
  case_->refusal.detail = result.detail;
  case_->after = history_.back().second;
  case_->acknowledged = objects_at(result.applied_generation);
  suspect_changes();
}

// An object that only came to allow less is none of them: what is left of it was accepted.
void NackProvenance::suspect_changes() {
  if (!case_->acknowledged) return suspect_every_object();
  const model::SpecObjects before = still_allowed(*case_->acknowledged, *case_->after);
  if (model::new_in(before, *case_->after).empty()) return suspect_every_object();
  begin_search(before, false);
}

// Of a MeshConfig only what it says about TLS: in its modes an older object may say something new.
void NackProvenance::suspect_every_object() {
  const MeshConfig known = case_->acknowledged ? case_->acknowledged->config : MeshConfig{};
  model::SpecObjects before;
  before.config = case_->after->config;
  before.config.tls = still_allowed(known, case_->after->config).tls;
  before.namespaces = case_->after->namespaces;
  begin_search(before, true);
}

void NackProvenance::begin_search(const model::SpecObjects& before, bool every_object) {
  std::vector<ObjectKey> suspects = model::new_in(before, *case_->after);
  bool hint = move_mentioned_last(case_->refusal.detail, *case_->after, suspects);
  if (every_object && !suspects.empty() && suspects.front().kind == model::kMeshConfigKind) {
    // What is wrong with TLS shows with the first Service, which is not to blame for it.
    std::rotate(suspects.begin(), suspects.begin() + 1, suspects.end());
    hint = false;
  }
  const NackInquest inquest(suspects.size(), hint);
  auto mesh = std::make_unique<TrialMesh>(
      TrialMesh::Options{before, *case_->after, options_.providers, options_.workload_providers,
                         options_.trust_domains()});
  case_->search.emplace(
      Search{every_object, before.config, std::move(suspects), inquest, std::move(mesh)});
  go_on();
}

void NackProvenance::go_on() {
  Search& search = *case_->search;
  const std::optional<std::size_t> trial = search.inquest.next();
  if (!trial) return conclude();
  const auto first_old = search.suspects.begin() + static_cast<std::ptrdiff_t>(*trial);
  const auto mesh = search.mesh->with_old({first_old, search.suspects.end()});
  if (!mesh) return blame_proxy("the mesh is not known any more");
  ++case_->trials;
  options_.proxies.try_on(case_->proxy, mesh,
                          in_this_case([this](const ads::TrialResult& r) { tried(r); }));
}

void NackProvenance::conclude() {
  const bool found = case_->search->inquest.culprit().has_value();
  if (case_->search->every_object) {
    if (found) return look_for_witness();
    if (!case_->against_config) return blame_proxy("it refuses even an empty mesh");
    case_->search = std::exchange(case_->against_config, std::nullopt);
    return look_for_witness();
  }
  const bool config = found && culprit().kind == model::kMeshConfigKind;
  if (found && !config) return look_for_witness();
  // Something else brought to light what an older object says: a workload that joined, or a mode.
  if (config) case_->against_config = std::move(case_->search);
  suspect_every_object();
}

void NackProvenance::tried(const ads::TrialResult& result) {
  using Outcome = ads::TrialResult::Outcome;
  options_.metrics.add("osm_nack_trials_total", {{"outcome", outcome_text(result.outcome)}}, 1);
  switch (result.outcome) {
    case Outcome::kRefused:
      case_->refusal.type = result.type;
      case_->refusal.detail = result.detail;
      [[fallthrough]];
    case Outcome::kAccepted:
      case_->accepts_some |= result.outcome == Outcome::kAccepted;
      case_->search->inquest.answered(result.outcome == Outcome::kAccepted);
      return go_on();
    case Outcome::kGone:
      return leave_alone_for_a_while();
    case Outcome::kTimedOut:
      return blame_proxy("it does not answer");
  }
}

// --- verdicts ---

// A proxy that is outdated or hostile must not shape the mesh of others.
void NackProvenance::look_for_witness() {
  if (!case_->without) {
    TrialMesh& mesh = *case_->search->mesh;
    mesh.with_old({});  // so that `changes` are those of the one object
    case_->without = mesh.without(culprit());
  }
  options_.proxies.find_witness(case_->proxy, case_->refusal.type, case_->without,
                                in_this_case([this](ads::Witness w) { witnessed(w); }));
}

void NackProvenance::witnessed(ads::Witness witness) {
  if (witness == ads::Witness::kAccepted) {
    // It is left with everything else, not with what the last trial happened to leave it.
    options_.proxies.try_on(case_->proxy, case_->without, in_this_case([this](const auto&) {
                              blame_proxy("others accept the object that it refuses", culprit());
                            }));
    return;
  }
  if (witness == ads::Witness::kUndecided && ++case_->unanswered_looks < kWitnessLooks) {
    const auto again = in_this_case([this] { look_for_witness(); });
    timer_ = strand_.post_after(kWitnessRetry, [again] { again(); });
    return;
  }
  withhold();
}

ObjectKey NackProvenance::named(ObjectKey object) const {
  if (object.kind == model::kMeshConfigKind)
    return {object.kind, options_.osm_namespace, "osm-mesh-config"};
  return object;
}

void NackProvenance::withhold() {
  const ObjectKey object = culprit();
  const ads::Refusal& refusal = case_->refusal;
  Problem problem;
  problem.code = ErrorCode::kRefusedByProxy;
  problem.object = named(object);
  problem.cause = "the proxy of " + refusal.workload.str() + " refused it (" +
                  std::string(xds_type_text(refusal.type)) + "): " + refusal.detail +
                  (object.kind == model::kMeshConfigKind
                       ? "; what it newly allows and its TLS settings are left out until it changes"
                       : "; it is left out until it changes");
  options_.log.error("a proxy refused an object; it is left out until it changes",
                     {{"code", std::string(error_code_text(problem.code))},
                      {"object", problem.object.str()},
                      {"uuid", refusal.proxy.second.str()},
                      {"workload", refusal.workload.str()},
                      {"type", std::string(xds_type_text(refusal.type))},
                      {"suspects", std::to_string(case_->search->suspects.size())},
                      {"trials", std::to_string(case_->trials)},
                      {"detail", refusal.detail}});
  options_.metrics.add("osm_nack_total",
                       {{"type", xds_type_text(refusal.type)}, {"object_kind", object.kind}}, 1);
  case_->withheld = object;
  options_.spec.withhold(std::move(problem), *case_->after, case_->search->good);
  // The canary stays on what it accepted until the mesh is published without the object.
  const auto bound = in_this_case([this] {
    refusers_.erase(case_->proxy);
    close(0);
  });
  timer_ = strand_.post_after(kReleaseBound, [bound] { bound(); });
}

// Whether the newest MeshConfig turned off a mode that the proxy may still be in.
bool NackProvenance::keeps_too_much() const {
  if (case_->accepts_some || !case_->acknowledged || !case_->after) return false;
  const MeshConfig& then = case_->acknowledged->config;
  const MeshConfig& now = case_->after->config;
  return (then.permissive && !now.permissive) || (then.egress && !now.egress);
}

void NackProvenance::blame_proxy(const std::string& why, const ObjectKey& object) {
  const ads::Refusal& refusal = case_->refusal;
  options_.log.error("a proxy refuses its configuration, and no object is to blame",
                     {{"code", std::string(error_code_text(ErrorCode::kRefusedByProxy))},
                      {"object", object.kind.empty() ? "" : named(object).str()},
                      {"uuid", refusal.proxy.second.str()},
                      {"workload", refusal.workload.str()},
                      {"type", std::string(xds_type_text(refusal.type))},
                      {"cause", keeps_too_much() ? why + kKeepsTooMuch : why},
                      {"detail", refusal.detail}});
  options_.metrics.add("osm_nack_total",
                       {{"type", xds_type_text(refusal.type)}, {"object_kind", "none"}}, 1);
  leave_alone_for_a_while();
}

// One that answers badly, or hangs up on every trial, must not keep others waiting.
void NackProvenance::leave_alone_for_a_while() {
  Refuser& refuser = refusers_.at(case_->proxy);
  refuser.ready_at = options_.clock.steady_now() + refuser.pause;
  refuser.pause = std::min(refuser.pause * 2, kLongestPause);
  close(0);
}

// The proxy goes back to what its class holds in `generation` or later.
void NackProvenance::close(std::uint64_t generation) {
  timer_.reset();
  options_.proxies.end_trial(case_->proxy, generation);
  case_.reset();
  take_next();
}

// What was written when the generation was published; null: not remembered.
NackProvenance::Objects NackProvenance::objects_at(std::uint64_t generation) const {
  Objects found;
  for (const auto& [first, objects] : history_)
    if (first <= generation) found = objects;
  return found;
}

}  // namespace osm::inline v1::nack_provenance
