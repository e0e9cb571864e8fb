#include "nack_provenance/nack_provenance.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "ads/metrics.hpp"
#include "base/maps.hpp"
#include "base/utf8.hpp"

namespace osm::inline v1::nack_provenance {
namespace {

constexpr Counter kNackTrials{"osm_nack_trials_total",
                              "Trials on proxies that search for what they refuse, by outcome",
                              {"outcome"}};

// Number of objects that a verdict tells apart, of those that may not be left out.
constexpr std::size_t kComparedAlone = 16;
// Number of versions of the MeshConfig that are remembered.
constexpr std::size_t kRemembered = 64;
constexpr const char* kKeepsTooMuch =
    "; the configuration that it keeps is of a mode that the MeshConfig has turned off";

// In the order of TrialResult::Outcome.
constexpr std::array kOutcomes{"accepted", "refused", "gone", "timed-out"};

// Modes bring up objects; the other settings are in every object's resources.
ProxySettings without_modes(ProxySettings settings) {
  settings.permissive = settings.egress = settings.egress_policy = settings.ingress = false;
  return settings;
}

ads::ResourceNames minus(ads::ResourceNames a, const ads::ResourceNames& b) {
  std::erase_if(a, [&](const auto& name) { return b.contains(name); });
  return a;
}

ObjectSet joined(ObjectSet a, const ObjectSet& b) {
  a.insert(b.begin(), b.end());
  return a;
}

}  // namespace

NackProvenance::NackProvenance(const NackProvenanceOptions& options)
    : options_(options),
      meshes_(options.inputs, options.proxies),
      strand_(options.runtime.executor) {
  published_ = options_.snapshots.subscribe(
      [this](const auto& snapshot) { strand_.post([this, snapshot] { on_snapshot(snapshot); }); });
  refused_ = options_.proxies.subscribe_refusals([this](const ads::Refusal& refusal) {
    strand_.post([this, refusal] { on_refusal(refusal); });
  });
  strand_.post([this] { on_snapshot(options_.snapshots.load()); });
  look_for_absent();
}

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

void NackProvenance::on_snapshot(const Snapshot& snapshot) {
  if (!snapshot || (newest_ && snapshot->generation <= newest_->generation)) return;
  const Snapshot before = std::exchange(newest_, snapshot);
  const ObjectSet changed = note_changes(before);
  std::set<model::ProxyKey> lifted;
  for (auto& [proxy, judged] : judged_) {
    const bool gone = snapshot->workloads.find(proxy) == nullptr;
    const auto ended = [&](const auto& one) { return gone || changed.contains(one.first); };
    if (std::erase_if(judged.verdicts, ended) != 0) lifted.insert(proxy);
  }
  meshes_.follow(snapshot);
  reassign(lifted);
  if (!search_ || !search_->bisection) return;
  if (outdated(changed)) {
    end_search();  // the next search is about the new version
  } else if (search_->trial && !snapshot->changes.empty()) {
    const auto again = search_->trial;  // it may end the search
    again();                            // no proxy keeps what was taken away meanwhile
  }
}

// Result: the objects that differ.
ObjectSet NackProvenance::note_changes(const Snapshot& before) {
  if (!before || before->config.proxy != newest_->config.proxy)
    settings_[newest_->generation] = newest_->config.proxy;
  if (settings_.size() > kRemembered) settings_.erase(settings_.begin());
  if (before && before->objects == newest_->objects) return {};
  const SpecSnapshot none;
  const SpecSnapshot& objects = before ? *before->objects : none;
  std::vector<ObjectKey> changed = model::differing(objects, *newest_->objects);
  std::ranges::replace(changed, newest_->objects->config_key, model::mesh_config_key());
  for (const ObjectKey& object : changed) changed_in_.erase(object);
  for (const ObjectKey& object : model::new_in(objects, *newest_->objects))
    changed_in_[object] = newest_->generation;
  return {changed.begin(), changed.end()};
}

// True if an object changed that shapes the proxy, or that the search has among the likely ones.
bool NackProvenance::outdated(const ObjectSet& changed) const {
  if (changed.empty()) return false;
  const ObjectSet here = shaping(search_->refusal.proxy, *newest_);
  return std::ranges::any_of(changed, [&](const ObjectKey& key) {
    return key == model::mesh_config_key() || here.contains(key) || search_->likely.contains(key);
  });
}

ObjectSet NackProvenance::refused_by(const model::ProxyKey& proxy) const {
  ObjectSet objects;
  if (const JudgedProxy* judged = find_in(judged_, proxy))
    for (const auto& [object, verdict] : judged->verdicts) objects.insert(object);
  return objects;
}

// Gives the proxy the mesh for all objects that it was found to refuse. Result: false if it has
// none of its own for them.
bool NackProvenance::assign(const model::ProxyKey& proxy) {
  const bool given = meshes_.assign(proxy, refused_by(proxy));
  for (auto& [object, verdict] : judged_.at(proxy).verdicts)
    verdict.keeping = !given || !may_be_left_out(object);
  return given;
}

void NackProvenance::reassign(const std::set<model::ProxyKey>& proxies) {
  for (const model::ProxyKey& proxy : proxies) {
    assign(proxy);
    if (!judged_.at(proxy).verdicts.empty()) continue;
    judged_.erase(proxy);
    refusing_.erase(proxy);
  }
  publish();
}

void NackProvenance::publish() {
  Refusals all;
  for (const auto& [proxy, judged] : judged_)
    for (const auto& [object, verdict] : judged.verdicts) all[object].emplace(proxy, verdict);
  options_.verdicts.publish(std::move(all));
}

void NackProvenance::on_refusal(const ads::Refusal& refusal) {
  const auto [at, fresh] = refusing_.try_emplace(refusal.proxy);
  at->second.refusal = refusal;
  if (fresh) at->second.ready_at = options_.runtime.clock.steady_now();
  start_next();
}

// --- one search after the other ---

void NackProvenance::start_next() {
  if (search_) return;
  if (refusing_.empty()) return meshes_.end_trials();
  const auto first =
      std::ranges::min_element(refusing_, {}, [](const auto& one) { return one.second.ready_at; });
  const SteadyTime now = options_.runtime.clock.steady_now();
  if (first->second.ready_at > now) {
    timer_ = strand_.post_after(first->second.ready_at - now, [this] { start_next(); });
    return;
  }
  search_ = Search{.number = ++last_search_, .refusal = first->second.refusal};
  options_.proxies.try_on(first->first, {},
                          in_this_search([this](const ads::TrialResult& r) { on_newest(r); }));
}

// The proxy answered the newest mesh that it has.
void NackProvenance::on_newest(const ads::TrialResult& result) {
  if (result.outcome == Outcome::kTimedOut) return report_no_object("it does not answer");
  if (result.outcome != Outcome::kRefused) {
    refusing_.erase(search_->refusal.proxy);
    return end_search();
  }
  on_snapshot(options_.snapshots.load());  // the subscription may announce it only later
  search_->refusal.type = result.type;
  search_->refusal.detail = result.detail;
  search_->applied = result.applied_generation;
  search_->known = refused_by(search_->refusal.proxy);
  if (!search_->known.empty() && !meshes_.has_own(search_->refusal.proxy)) return give_own_mesh();
  if (search_->known.size() >= kRefusedByOne)
    return report_no_object("it refuses " + std::to_string(kRefusedByOne) +
                            " objects and still more");
  begin();
}

void NackProvenance::begin() {
  const Refusals refusals =
      options_.verdicts.list(options_.elsewhere ? options_.elsewhere() : Refusals());
  for (const auto& [object, by] : refusals) {
    const Verdict& one = by.begin()->second;
    search_->found_elsewhere[object] = (one.replica.empty() ? "" : one.replica + ": ") + one.text();
  }
  if (search_->applied != 0)
    for (const auto& [object, generation] : changed_in_)
      if (generation > search_->applied) search_->fresh.insert(object);
  search_->candidates = model::new_in({}, *newest_->objects);  // all
  std::erase_if(search_->candidates, [&](const ObjectKey& object) {
    return !may_be_left_out(object) || search_->known.contains(object);
  });
  std::vector<std::size_t> likely =
      order_by_likelihood({search_->refusal.detail, search_->found_elsewhere, search_->fresh},
                          *newest_, search_->refusal.proxy, search_->candidates);
  if (!likely.empty())
    search_->likely = {search_->candidates.end() - static_cast<std::ptrdiff_t>(likely.back()),
                       search_->candidates.end()};
  search_->bisection.emplace(search_->candidates.size(), std::move(likely));
  const ObjectSet fixed = only_change();
  if (fixed.empty()) return try_next();
  try_on(fixed, [this, fixed](bool accepted) {
    if (accepted)
      conclude(fixed);
    else
      try_next();
  });
}

// The limits that are new to the proxy, if nothing else is that shapes it. Then no other object has
// to be left out to name them.
ObjectSet NackProvenance::only_change() const {
  if (search_->fresh.contains(model::mesh_config_key())) return {};
  ObjectSet fixed;
  const ObjectSet here = shaping(search_->refusal.proxy, *newest_);
  for (const ObjectKey& object : search_->fresh) {
    if (!here.contains(object)) continue;
    if (may_be_left_out(object)) return {};
    fixed.insert(object);
  }
  return fixed;
}

void NackProvenance::try_next() {
  const std::optional<std::size_t> trial = search_->bisection->next();
  if (!trial) {
    const std::optional<std::size_t> found = search_->bisection->found();
    return found ? compare_fixed(search_->candidates[*found]) : try_without_config();
  }
  const auto first_left_out = search_->candidates.begin() + static_cast<std::ptrdiff_t>(*trial);
  try_on({first_left_out, search_->candidates.end()}, [this](bool accepted) {
    search_->bisection->answered(accepted);
    try_next();
  });
}

// Sends the proxy what it would get if it were known to refuse these objects too.
void NackProvenance::try_on(const ObjectSet& refused, std::function<void(bool accepted)> then) {
  search_->trial = [this, refused, then] {
    ads::ProxyMesh mesh = meshes_.without(joined(search_->known, refused));
    if (!mesh.mesh) return report_no_object("the mesh is not known any more");
    options_.proxies.try_on(
        search_->refusal.proxy, std::move(mesh),
        in_this_search([this, then](const ads::TrialResult& r) { on_trial(r, then); }));
  };
  ++search_->trials;
  const auto trial = search_->trial;  // report_no_object() ends the search
  trial();
}

void NackProvenance::on_trial(const ads::TrialResult& result,
                              const std::function<void(bool)>& then) {
  search_->trial = nullptr;
  options_.runtime.metrics.add(
      kNackTrials, {{"outcome", kOutcomes.at(static_cast<std::size_t>(result.outcome))}}, 1);
  if (result.outcome == Outcome::kGone) return pause_proxy();
  if (result.outcome == Outcome::kTimedOut) return report_no_object("it does not answer");
  if (result.outcome == Outcome::kRefused) {
    search_->refusal.type = result.type;
    search_->refusal.detail = result.detail;
  } else {
    search_->accepts_some |= !result.kept;
  }
  then(result.outcome == Outcome::kAccepted);
}

// --- objects that are never left out ---

// The proxy refuses the mesh without any object.
void NackProvenance::try_without_config() {
  const char* const kNone = "it refuses even an empty mesh";
  const ProxySettings& settings = newest_->config.proxy;
  if (settings == without_config(settings) || search_->known.contains(model::mesh_config_key()))
    return report_no_object(kNone);
  try_on({model::mesh_config_key()}, [this, kNone](bool accepted) {
    if (!accepted) return report_no_object(kNone);
    conclude({model::mesh_config_key()});
  });
}

// The mesh without the object that was found is accepted. Without it others may have no effect: a
// limit without its Service. Compares what they add to the proxy's resources with the object, and
// without it.
void NackProvenance::compare_fixed(const ObjectKey& found) {
  ObjectSet fixed;
  for (const ObjectKey& object : model::new_in({}, *newest_->objects))
    if (!may_be_left_out(object) && !search_->known.contains(object)) fixed.insert(object);
  fixed.erase(model::mesh_config_key());
  const bool config = suspects_config(found);
  if (fixed.empty() && !config) return conclude({found});
  const ObjectSet here = shaping(search_->refusal.proxy, *newest_);
  std::vector<ObjectKey> single;
  for (const ObjectKey& object : fixed)
    if (here.contains(object) && single.size() < kComparedAlone) single.push_back(object);
  // A frozen object is not the cause.
  const ObjectSet left_out = that_may_be_left_out(search_->known);
  std::vector<ObjectSet> sets{fixed, joined(fixed, {found})};
  for (const ObjectKey& object : single) sets.push_back({object});
  if (config) {
    const auto first = std::ranges::find(search_->candidates, found);
    sets.push_back({model::mesh_config_key()});
    sets.push_back(joined({model::mesh_config_key()}, {first, search_->candidates.end()}));
  }
  std::vector<ads::ProxyMesh> pairs;
  for (const ObjectSet& set : sets) {
    pairs.push_back(meshes_.without(joined(left_out, set)));
    if (!pairs.back().mesh) return report_no_object("the mesh is not known any more");
  }
  options_.proxies.compare(
      search_->refusal.proxy, std::move(pairs),
      in_this_search([this, found, fixed, single](const std::vector<ads::ResourceNames>& names) {
        on_compared(found, fixed, single, names);
      }));
}

// The mesh without the object that was found is accepted. Without a Service the MeshConfig may have
// no effect there. True if that is more likely the cause: it is new to the proxy, and the object is
// not; or nothing is known, and it sets what Envoy may not support.
bool NackProvenance::suspects_config(const ObjectKey& found) const {
  const ObjectKey config = model::mesh_config_key();
  if (search_->known.contains(config)) return false;
  const ProxySettings& now = newest_->config.proxy;
  const ProxySettings* then = applied_settings();
  const bool changed = then && without_modes(*then) != without_modes(now);
  if (changed || search_->found_elsewhere.contains(config)) return !search_->fresh.contains(found);
  return search_->applied == 0 && now.tls != TlsSettings();
}

// Settings of the generation that the proxy acknowledged; null: not known.
const ProxySettings* NackProvenance::applied_settings() const {
  const auto after = settings_.upper_bound(search_->applied);
  return after == settings_.begin() ? nullptr : &std::prev(after)->second;
}

void NackProvenance::on_compared(const ObjectKey& found, const ObjectSet& fixed,
                                 const std::vector<ObjectKey>& single,
                                 const std::vector<ads::ResourceNames>& differing) {
  if (differing.size() < single.size() + 2) return pause_proxy();  // it is gone
  // Nothing of this type that the MeshConfig shapes was accepted.
  const auto any_refused_type = [&](const ads::ResourceNames& names) {
    return std::ranges::count(names, search_->refusal.type,
                              &ads::ResourceNames::value_type::first) != 0;
  };
  if (differing.size() == single.size() + 4 && any_refused_type(differing[single.size() + 2]) &&
      !any_refused_type(differing.back()))
    return conclude({model::mesh_config_key()});
  const ads::ResourceNames suspects = minus(differing[0], differing[1]);
  const ObjectSet named = mentioned_in(search_->refusal.detail, *newest_->objects);
  ObjectSet guilty, mentioned;
  for (std::size_t i = 0; i < single.size(); ++i) {
    if (minus(suspects, differing[i + 2]).size() == suspects.size()) continue;
    guilty.insert(single[i]);
    if (named.contains(single[i])) mentioned.insert(single[i]);
  }
  if (guilty.empty()) return conclude({found});
  if (!mentioned.empty()) guilty = mentioned;
  // Refused without the resources that contain one: then these are not the cause.
  try_on(fixed,
         [this, found, guilty](bool accepted) { conclude(accepted ? guilty : ObjectSet{found}); });
}

// --- verdicts ---

void NackProvenance::conclude(const ObjectSet& objects) {
  const ads::Refusal& refusal = search_->refusal;
  const std::string type(xds_type_text(refusal.type));
  JudgedProxy& judged = judged_[refusal.proxy];
  judged.seen = options_.runtime.clock.steady_now();
  for (const ObjectKey& object : objects) {
    const std::string* elsewhere = find_in(search_->found_elsewhere, object);
    options_.runtime.log.error(
        may_be_left_out(object)
            ? "a proxy refused an object; it is served without it until that changes"
            : "a proxy refused an object; it keeps its last good content until that changes",
        {{"code", std::string(error_code_text(ErrorCode::kRefusedByProxy))},
         {"object", options_.verdicts.named(object).str()},
         {"uuid", refusal.proxy.id.str()},
         {"workload", refusal.workload.str()},
         {"type", type},
         {"candidates", std::to_string(search_->candidates.size())},
         {"trials", std::to_string(search_->trials)},
         {"found_by", elsewhere ? *elsewhere : ""},
         {"detail", refusal.detail}});
    options_.runtime.metrics.add(ads::kNacks, {{"type", type}, {"object_kind", object.kind}}, 1);
    judged.verdicts[object] = {refusal.workload, refusal.type,
                               to_utf8(refusal.detail.substr(0, Verdict::kDetailBytes))};
  }
  give_own_mesh();
}

void NackProvenance::give_own_mesh() {
  const model::ProxyKey& proxy = search_->refusal.proxy;
  const bool given = assign(proxy);
  publish();
  if (!given)
    return report_no_object("other proxies have the " + std::to_string(OwnMeshes::kMost) +
                            " meshes for proxies that refuse objects");
  refusing_.erase(proxy);
  // The trials may have taken more from the proxy than it is to keep.
  const ObjectSet objects = refused_by(proxy);
  end_search(that_may_be_left_out(objects) != objects);
}

// The newest MeshConfig turned off a mode, and the proxy may still be in it.
bool NackProvenance::keeps_too_much() const {
  const ProxySettings* then = applied_settings();
  if (search_->accepts_some || !then) return false;
  const ProxySettings& now = newest_->config.proxy;
  return (then->permissive && !now.permissive) || (then->egress && !now.egress) ||
         (then->egress_policy && !now.egress_policy) || (then->ingress && !now.ingress);
}

void NackProvenance::report_no_object(const std::string& cause) {
  const ads::Refusal& refusal = search_->refusal;
  options_.runtime.log.error("a proxy refuses its configuration and keeps its last good content",
                             {{"code", std::string(error_code_text(ErrorCode::kRefusedByProxy))},
                              {"uuid", refusal.proxy.id.str()},
                              {"workload", refusal.workload.str()},
                              {"type", std::string(xds_type_text(refusal.type))},
                              {"cause", keeps_too_much() ? cause + kKeepsTooMuch : cause},
                              {"detail", refusal.detail}});
  options_.runtime.metrics.add(ads::kNacks,
                               {{"type", xds_type_text(refusal.type)}, {"object_kind", "none"}}, 1);
  pause_proxy();
}

// A proxy that answers badly, or disconnects during every trial, must not keep others waiting.
void NackProvenance::pause_proxy() {
  if (RefusingProxy* proxy = find_in(refusing_, search_->refusal.proxy)) {
    proxy->ready_at = options_.runtime.clock.steady_now() + proxy->pause;
    proxy->pause = std::min(proxy->pause * 2, kLongestPause);
  }
  end_search();
}

// The proxy goes back to the configuration of its class.
void NackProvenance::end_search(bool restore) {
  timer_.reset();
  options_.proxies.end_trial(search_->refusal.proxy, restore);
  search_.reset();
  start_next();
}

// --- proxies that stay away ---

void NackProvenance::look_for_absent() {
  look_ = strand_.post_after(kLook, [this] {
    look_for_absent();
    meshes_.retry();
    if (!judged_.empty())
      options_.proxies.list_connected([this](const std::set<model::ProxyKey>& connected) {
        strand_.post([this, connected] { forget_absent(connected); });
      });
  });
}

void NackProvenance::forget_absent(const std::set<model::ProxyKey>& connected) {
  const SteadyTime now = options_.runtime.clock.steady_now();
  std::set<model::ProxyKey> away;
  for (auto& [proxy, judged] : judged_) {
    if (connected.contains(proxy)) judged.seen = now;
    if (now - judged.seen < kAway) continue;
    judged.verdicts.clear();
    away.insert(proxy);
  }
  reassign(away);
}

}  // namespace osm::inline v1::nack_provenance
