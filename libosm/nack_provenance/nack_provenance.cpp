#include "nack_provenance/nack_provenance.hpp"

#include <algorithm>
#include <array>

#include "nack_provenance/still_allowed.hpp"
#include "nack_provenance/suspects.hpp"

namespace osm::inline v1::nack_provenance {
namespace {

constexpr std::chrono::milliseconds kAskAgain{100};
constexpr int kMaxQuestions = 30;
constexpr std::chrono::seconds kReleaseBound{5};
constexpr const char* kKeepsTooMuch =
    "; the configuration that it keeps is of a mode that the MeshConfig has turned off";

// In the order of TrialResult::Outcome.
constexpr std::array kOutcomes{"accepted", "refused", "gone", "timed-out"};

bool same_in_both(const model::SpecObjects& now, const model::SpecObjects& then,
                  const ObjectKey& object) {
  const std::vector<ObjectKey> differ = model::new_in(now, model::only(then, object));
  return std::find(differ.begin(), differ.end(), object) == differ.end();
}

}  // namespace

NackProvenance::NackProvenance(const NackProvenanceOptions& options)
    : options_(options),
      verdicts_(options.board, options.runtime.log),
      strand_(options.runtime.executor) {
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
auto NackProvenance::in_this_search(Step step) {
  return [this, number = search_->number, step](const auto&... result) {
    strand_.post([this, number, step, result...] {
      if (search_ && search_->number == number) step(result...);
    });
  };
}

// --- events ---

void NackProvenance::on_snapshot(const std::shared_ptr<const model::MeshSnapshot>& snapshot) {
  if (!snapshot || snapshot->generation <= generation_) return;
  generation_ = snapshot->generation;
  if (history_.empty() || history_.back().second != snapshot->objects)
    history_.emplace_back(generation_, snapshot->objects);
  if (history_.size() > kRemembered) history_.pop_front();
  if (!search_ || !search_->round) return;
  if (search_->withheld) {
    if (same_in_both(*snapshot->objects, *search_->after, *search_->withheld)) return;
    refusing_.erase(search_->proxy);
    end_search(generation_);
  } else if (outdated(*snapshot->objects)) {
    end_search(generation_);  // the next search is about the new version
  }
}

// A candidate has another version than when the search began, or an object allows less by now.
bool NackProvenance::outdated(const model::SpecObjects& now) const {
  if (!model::new_in(still_allowed(*search_->after, now), *search_->after).empty()) return true;
  if (denials_of(now.policies) != denials_of(search_->after->policies)) return true;
  const std::vector<ObjectKey> differ = model::new_in(now, *search_->after);
  const std::vector<ObjectKey>& candidates = search_->round->candidates;
  return std::any_of(differ.begin(), differ.end(), [&](const ObjectKey& key) {
    return std::find(candidates.begin(), candidates.end(), key) != candidates.end();
  });
}

void NackProvenance::on_refusal(const ads::Refusal& refusal) {
  const auto [at, fresh] = refusing_.try_emplace(refusal.proxy);
  at->second.refusal = refusal;
  if (fresh) at->second.ready_at = options_.runtime.clock.steady_now();
  start_next();
}

// --- one search after the other ---

void NackProvenance::start_next() {
  if (search_ || refusing_.empty()) return;
  const auto first = std::min_element(
      refusing_.begin(), refusing_.end(),
      [](const auto& a, const auto& b) { return a.second.ready_at < b.second.ready_at; });
  const SteadyTime now = options_.runtime.clock.steady_now();
  if (first->second.ready_at > now) {
    timer_ = strand_.post_after(first->second.ready_at - now, [this] { start_next(); });
    return;
  }
  search_ = Search();
  search_->number = ++last_search_;
  search_->proxy = first->first;
  search_->refusal = first->second.refusal;
  options_.proxies.try_on(search_->proxy, nullptr,
                          in_this_search([this](const ads::TrialResult& r) { on_newest(r); }));
}

// The proxy answered the newest mesh.
void NackProvenance::on_newest(const ads::TrialResult& result) {
  using Outcome = ads::TrialResult::Outcome;
  if (result.outcome == Outcome::kTimedOut) return report_no_object("it does not answer");
  if (result.outcome != Outcome::kRefused) {
    refusing_.erase(search_->proxy);
    return end_search(0);
  }
  on_snapshot(options_.snapshots.load());  // the subscription may announce it only later
  search_->refusal.type = result.type;
  search_->refusal.detail = result.detail;
  search_->after = history_.back().second;
  search_->found_elsewhere = verdicts_.list();
  search_->acknowledged = objects_at(result.applied_generation);
  search_changed_objects();
}

// An object that only came to allow less is no candidate: the proxy accepted the rest of it before.
void NackProvenance::search_changed_objects() {
  if (!search_->acknowledged) return search_every_object();
  const model::SpecObjects before = still_allowed(*search_->acknowledged, *search_->after);
  if (model::new_in(before, *search_->after).empty()) return search_every_object();
  begin_round(before, false);
}

// Only the TLS settings of the MeshConfig go back: another mode could bring up other objects.
void NackProvenance::search_every_object() {
  const MeshConfig known = search_->acknowledged ? search_->acknowledged->config : MeshConfig{};
  model::SpecObjects before;
  before.config = search_->after->config;
  before.config.proxy.tls = still_allowed(known, search_->after->config).proxy.tls;
  before.namespaces = search_->after->namespaces;
  before.policies = denylists(*search_->after);
  begin_round(before, true);
}

void NackProvenance::begin_round(const model::SpecObjects& before, bool every_object) {
  std::vector<ObjectKey> candidates = model::new_in(before, *search_->after);
  std::vector<std::size_t> likely =
      order_by_likelihood(search_->refusal.detail, *options_.snapshots.load(),
                          search_->refusal.workload, search_->found_elsewhere, candidates);
  if (every_object && !candidates.empty() && candidates.front() == model::mesh_config_key()) {
    // Invalid TLS settings appear with the first Service, which is not their cause.
    std::rotate(candidates.begin(), candidates.begin() + 1, candidates.end());
    for (std::size_t& size : likely) ++size;
  }
  const Bisection bisection(candidates.size(), std::move(likely));
  auto mesh = std::make_unique<TrialMesh>(
      TrialMesh::Options{before, *search_->after, options_.providers, options_.workload_providers,
                         options_.trust_domains()});
  search_->round.emplace(
      Round{every_object, before.config, std::move(candidates), bisection, std::move(mesh)});
  try_next();
}

void NackProvenance::try_next() {
  Round& round = *search_->round;
  const std::optional<std::size_t> trial = round.bisection.next();
  if (!trial) return end_round();
  const auto first_old = round.candidates.begin() + static_cast<std::ptrdiff_t>(*trial);
  const auto mesh = round.mesh->with_old({first_old, round.candidates.end()});
  if (!mesh) return report_no_object("the mesh is not known any more");
  ++search_->trials;
  options_.proxies.try_on(search_->proxy, mesh,
                          in_this_search([this](const ads::TrialResult& r) { on_trial(r); }));
}

void NackProvenance::end_round() {
  const bool any = search_->round->bisection.found().has_value();
  if (search_->round->every_object) {
    if (any) return ask_others();
    if (!search_->config_round) return report_no_object("it refuses even an empty mesh");
    search_->round = std::exchange(search_->config_round, std::nullopt);
    return ask_others();
  }
  const bool config = any && found() == model::mesh_config_key();
  if (any && !config) return ask_others();
  // A new workload or a new mode can make the proxy see an older object for the first time.
  if (config) search_->config_round = std::move(search_->round);
  search_every_object();
}

void NackProvenance::on_trial(const ads::TrialResult& result) {
  using Outcome = ads::TrialResult::Outcome;
  options_.runtime.metrics.add(
      "osm_nack_trials_total",
      {{"outcome", kOutcomes.at(static_cast<std::size_t>(result.outcome))}}, 1);
  switch (result.outcome) {
    case Outcome::kRefused:
      search_->refusal.type = result.type;
      search_->refusal.detail = result.detail;
      [[fallthrough]];
    case Outcome::kAccepted:
      search_->accepts_some |= result.outcome == Outcome::kAccepted && !result.kept;
      search_->round->bisection.answered(result.outcome == Outcome::kAccepted);
      return try_next();
    case Outcome::kGone:
      return pause_proxy();
    case Outcome::kTimedOut:
      return report_no_object("it does not answer");
  }
}

// --- verdicts ---

// A proxy that is outdated or hostile must not shape the mesh of others.
void NackProvenance::ask_others() {
  if (!search_->without) {
    TrialMesh& mesh = *search_->round->mesh;
    mesh.with_old({});  // so that `changes` are those of the one object
    search_->without = mesh.without(found());
  }
  options_.proxies.ask_others(search_->proxy, search_->refusal.type, search_->without,
                              in_this_search([this](ads::OtherProxies o) { on_others(o); }));
}

void NackProvenance::on_others(ads::OtherProxies others) {
  if (others == ads::OtherProxies::kAccepted) {
    // The last trial may have taken more from the proxy than the one object.
    options_.proxies.try_on(search_->proxy, search_->without, in_this_search([this](const auto&) {
                              report_no_object("others accept the object that it refuses", found());
                            }));
    return;
  }
  if (others == ads::OtherProxies::kUndecided && ++search_->questions < kMaxQuestions) {
    const auto again = in_this_search([this] { ask_others(); });
    timer_ = strand_.post_after(kAskAgain, [again] { again(); });
    return;
  }
  withhold();
}

ObjectKey NackProvenance::named(ObjectKey object) const {
  if (object == model::mesh_config_key())
    return {kinds::kMeshConfig, options_.osm_namespace, "osm-mesh-config"};
  return object;
}

void NackProvenance::withhold() {
  const ObjectKey object = found();
  const ads::Refusal& refusal = search_->refusal;
  Problem problem;
  problem.code = ErrorCode::kRefusedByProxy;
  problem.object = named(object);
  problem.cause = "the proxy of " + refusal.workload.str() + " refused it (" +
                  std::string(xds_type_text(refusal.type)) + "): " + refusal.detail +
                  (object == model::mesh_config_key()
                       ? "; what it newly allows and its TLS settings are left out until it changes"
                       : "; it is left out until it changes");
  const auto elsewhere = search_->found_elsewhere.find(object);
  const std::string found_by = elsewhere == search_->found_elsewhere.end() ? "" : elsewhere->second;
  options_.runtime.log.error("a proxy refused an object; it is left out until it changes",
                             {{"code", std::string(error_code_text(problem.code))},
                              {"object", problem.object.str()},
                              {"uuid", refusal.proxy.id.str()},
                              {"workload", refusal.workload.str()},
                              {"type", std::string(xds_type_text(refusal.type))},
                              {"candidates", std::to_string(search_->round->candidates.size())},
                              {"trials", std::to_string(search_->trials)},
                              {"found_by", found_by},
                              {"detail", refusal.detail}});
  options_.runtime.metrics.add(
      "osm_nack_total", {{"type", xds_type_text(refusal.type)}, {"object_kind", object.kind}}, 1);
  verdicts_.share(object, refusal.workload.str() + " (" + std::string(xds_type_text(refusal.type)) +
                              "): " + refusal.detail);
  search_->withheld = object;
  options_.spec.withhold(std::move(problem), *search_->after, search_->round->good);
  // The proxy keeps the last trial that it accepted until the mesh is published without the object.
  const auto bound = in_this_search([this] {
    refusing_.erase(search_->proxy);
    end_search(0);
  });
  timer_ = strand_.post_after(kReleaseBound, [bound] { bound(); });
}

// The newest MeshConfig turned off a mode, and the proxy may still be in it.
bool NackProvenance::keeps_too_much() const {
  if (search_->accepts_some || !search_->acknowledged || !search_->after) return false;
  const ProxySettings& then = search_->acknowledged->config.proxy;
  const ProxySettings& now = search_->after->config.proxy;
  return (then.permissive && !now.permissive) || (then.egress && !now.egress) ||
         (then.egress_policy && !now.egress_policy) || (then.ingress && !now.ingress);
}

void NackProvenance::report_no_object(const std::string& cause, const ObjectKey& object) {
  const ads::Refusal& refusal = search_->refusal;
  options_.runtime.log.error("a proxy refuses its configuration, and no object is the cause",
                             {{"code", std::string(error_code_text(ErrorCode::kRefusedByProxy))},
                              {"object", object.kind.empty() ? "" : named(object).str()},
                              {"uuid", refusal.proxy.id.str()},
                              {"workload", refusal.workload.str()},
                              {"type", std::string(xds_type_text(refusal.type))},
                              {"cause", keeps_too_much() ? cause + kKeepsTooMuch : cause},
                              {"detail", refusal.detail}});
  options_.runtime.metrics.add("osm_nack_total",
                               {{"type", xds_type_text(refusal.type)}, {"object_kind", "none"}}, 1);
  pause_proxy();
}

// A proxy that answers badly, or disconnects during every trial, must not keep others waiting.
void NackProvenance::pause_proxy() {
  RefusingProxy& proxy = refusing_.at(search_->proxy);
  proxy.ready_at = options_.runtime.clock.steady_now() + proxy.pause;
  proxy.pause = std::min(proxy.pause * 2, kLongestPause);
  end_search(0);
}

// The proxy goes back to the configuration of its class, of `generation` or later.
void NackProvenance::end_search(std::uint64_t generation) {
  timer_.reset();
  options_.proxies.end_trial(search_->proxy, generation);
  search_.reset();
  start_next();
}

// The specification of that generation; null: not remembered.
NackProvenance::Objects NackProvenance::objects_at(std::uint64_t generation) const {
  Objects objects;
  for (const auto& [first, then] : history_)
    if (first <= generation) objects = then;
  return objects;
}

}  // namespace osm::inline v1::nack_provenance
