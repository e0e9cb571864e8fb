#include "nack_provenance/nack_provenance.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::nack_provenance {
namespace {

// Number of objects that a verdict tells apart, of those that may not be left out.
constexpr std::size_t kComparedAlone = 16;
// Number of versions of the MeshConfig that are remembered.
constexpr std::size_t kRemembered = 64;
constexpr const char* kKeepsTooMuch =
    "; the configuration that it keeps is of a mode that the MeshConfig has turned off";

// In the order of TrialResult::Outcome.
constexpr std::array kOutcomes{"accepted", "refused", "gone", "timed-out"};

bool present(const model::SpecObjects& objects, const ObjectKey& object) {
  bool found = false;
  model::for_each_list(
      [&](auto list, auto) { found = found || model::find(objects.*list, object) != nullptr; });
  return found;
}

// Modes bring up objects; the other settings are in every object's resources.
ProxySettings without_modes(ProxySettings settings) {
  settings.permissive = settings.egress = settings.egress_policy = settings.ingress = false;
  return settings;
}

ads::ResourceNames minus(ads::ResourceNames a, const ads::ResourceNames& b) {
  std::erase_if(a, [&](const auto& name) { return b.contains(name); });
  return a;
}

}  // namespace

NackProvenance::NackProvenance(const NackProvenanceOptions& options)
    : options_(options),
      shared_(options.board, options.runtime.log),
      meshes_({options.providers, options.workload_providers, options.trust_domains},
              options.proxies),
      strand_(options.runtime.executor) {
  published_ = options_.snapshots.subscribe(
      [this](const auto& snapshot) { strand_.post([this, snapshot] { on_snapshot(snapshot); }); });
  refused_ = options_.proxies.subscribe_refusals([this](const ads::Refusal& refusal) {
    strand_.post([this, refusal] { on_refusal(refusal); });
  });
  strand_.post([this] { on_snapshot(options_.snapshots.load()); });
  look_for_absent();
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

void NackProvenance::on_snapshot(const Snapshot& snapshot) {
  if (!snapshot || (newest_ && snapshot->generation <= newest_->generation)) return;
  const Snapshot before = std::exchange(newest_, snapshot);
  note_changes(before ? *before : model::MeshSnapshot());
  std::set<model::ProxyKey> lifted = options_.verdicts.lift(*snapshot->objects);
  for (const model::ProxyKey& proxy : options_.verdicts.proxies()) {
    if (snapshot->workloads.find(proxy)) continue;
    options_.verdicts.forget(proxy);
    lifted.insert(proxy);
  }
  meshes_.follow(snapshot);
  reassign(lifted);
  if (!search_ || !search_->bisection) return;
  if (outdated(snapshot->changes)) {
    end_search();  // the next search is about the new version
  } else if (search_->trial && !snapshot->changes.empty()) {
    const auto again = search_->trial;  // it may end the search
    again();                            // no proxy keeps what was taken away meanwhile
  }
}

void NackProvenance::note_changes(const model::MeshSnapshot& before) {
  const std::uint64_t generation = newest_->generation;
  for (const ObjectKey& object : newest_->changes.objects) {
    if (object.is(model::kWorkloadKind)) continue;
    if (present(*newest_->objects, object))
      changed_in_[object] = generation;
    else
      changed_in_.erase(object);
  }
  if (settings_.empty() || before.config.proxy != newest_->config.proxy)
    settings_[generation] = newest_->config.proxy;
  if (settings_.size() > kRemembered) settings_.erase(settings_.begin());
}

// True if an object changed that shapes the proxy, or that the search has among the likely ones.
bool NackProvenance::outdated(const model::Changes& changes) const {
  if (changes.objects.empty()) return false;
  const std::set<ObjectKey> here = contributors(*newest_, search_->refusal.workload);
  return std::any_of(changes.objects.begin(), changes.objects.end(), [&](const ObjectKey& key) {
    return key.is(kinds::kMeshConfig) || here.contains(key) || search_->likely.contains(key);
  });
}

void NackProvenance::reassign(const std::set<model::ProxyKey>& proxies) {
  for (const model::ProxyKey& proxy : proxies) {
    const RefusedObjects objects = options_.verdicts.of(proxy);
    options_.verdicts.set_keeping(proxy, !meshes_.assign(proxy, objects));
    if (objects.empty()) refusing_.erase(proxy);
  }
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
  options_.proxies.try_on(search_->proxy, {},
                          in_this_search([this](const ads::TrialResult& r) { on_newest(r); }));
}

// The proxy answered the newest mesh that it has.
void NackProvenance::on_newest(const ads::TrialResult& result) {
  if (result.outcome == Outcome::kTimedOut) return report_no_object("it does not answer");
  if (result.outcome != Outcome::kRefused) {
    refusing_.erase(search_->proxy);
    return end_search();
  }
  on_snapshot(options_.snapshots.load());  // the subscription may announce it only later
  search_->refusal.type = result.type;
  search_->refusal.detail = result.detail;
  search_->applied = result.applied_generation;
  search_->known = options_.verdicts.of(search_->proxy);
  if (!search_->known.empty() && !meshes_.has_own(search_->proxy)) return give_own_mesh();
  if (search_->known.left_out.size() + search_->known.frozen.size() >= kRefusedByOne)
    return report_no_object("it refuses " + std::to_string(kRefusedByOne) +
                            " objects and still more");
  begin();
}

void NackProvenance::begin() {
  search_->found_elsewhere = shared_.list();
  for (const ObjectKey& object : options_.verdicts.objects())
    search_->found_elsewhere.try_emplace(object);
  if (search_->applied != 0)
    for (const auto& [object, generation] : changed_in_)
      if (generation > search_->applied) search_->fresh.insert(object);
  search_->candidates = sorted_out(*newest_->objects).first;
  std::erase_if(search_->candidates,
                [&](const ObjectKey& object) { return search_->known.left_out.contains(object); });
  std::vector<std::size_t> likely =
      order_by_likelihood(hints(), *newest_, search_->refusal.workload, search_->candidates);
  if (!likely.empty())
    search_->likely = {search_->candidates.end() - static_cast<std::ptrdiff_t>(likely.back()),
                       search_->candidates.end()};
  search_->bisection.emplace(search_->candidates.size(), std::move(likely));
  const ObjectSet fixed = only_change();
  if (fixed.empty()) return try_next();
  try_on({}, fixed, [this, fixed](bool accepted) {
    if (accepted)
      conclude(fixed, true);
    else
      try_next();
  });
}

// The limits that are new to the proxy, if nothing else is that shapes it. Then no other object has
// to be left out to name them.
ObjectSet NackProvenance::only_change() const {
  ObjectSet fixed;
  const std::set<ObjectKey> here = contributors(*newest_, search_->refusal.workload);
  for (const ObjectKey& object : search_->fresh) {
    if (!here.contains(object)) continue;
    if (may_be_left_out(object)) return {};
    fixed.insert(object);
  }
  const auto config = settings_.upper_bound(search_->applied);
  return config == settings_.end() ? fixed : ObjectSet();
}

Hints NackProvenance::hints() const {
  Hints hints{search_->refusal.detail, search_->found_elsewhere, search_->fresh};
  // The cause may be an object that is never left out. It has its effect on its Services.
  for (const auto& policy : newest_->objects->policies)
    if (!may_be_left_out(policy->key) &&
        (hints.fresh.contains(policy->key) || hints.found_elsewhere.contains(policy->key)))
      hints.services.insert(policy->reach.services.begin(), policy->reach.services.end());
  return hints;
}

void NackProvenance::try_next() {
  const std::optional<std::size_t> trial = search_->bisection->next();
  if (!trial) {
    const std::optional<std::size_t> found = search_->bisection->found();
    return found ? compare_fixed(search_->candidates[*found]) : try_without_config();
  }
  const auto first_left_out = search_->candidates.begin() + static_cast<std::ptrdiff_t>(*trial);
  try_on({first_left_out, search_->candidates.end()}, {}, [this](bool accepted) {
    search_->bisection->answered(accepted);
    try_next();
  });
}

// Objects of the search, and those that the proxy was found to refuse before.
ObjectSet NackProvenance::known_and(ObjectSet objects) const {
  objects.insert(search_->known.left_out.begin(), search_->known.left_out.end());
  return objects;
}

void NackProvenance::try_on(const ObjectSet& left_out, const ObjectSet& frozen,
                            std::function<void(bool accepted)> then) {
  search_->trial = [this, left_out, frozen, then] {
    ObjectSet both = frozen;
    both.insert(search_->known.frozen.begin(), search_->known.frozen.end());
    ads::ProxyMesh mesh{meshes_.without(known_and(left_out)), nullptr};
    if (!both.empty()) {
      both.insert(left_out.begin(), left_out.end());
      mesh.without = meshes_.without(known_and(std::move(both)));
      if (!mesh.without) mesh.mesh = nullptr;
    }
    if (!mesh.mesh) return report_no_object("the mesh is not known any more");
    options_.proxies.try_on(
        search_->proxy, std::move(mesh),
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
      "osm_nack_trials_total",
      {{"outcome", kOutcomes.at(static_cast<std::size_t>(result.outcome))}}, 1);
  switch (result.outcome) {
    case Outcome::kRefused:
      search_->refusal.type = result.type;
      search_->refusal.detail = result.detail;
      return then(false);
    case Outcome::kAccepted:
      search_->accepts_some |= !result.kept;
      return then(true);
    case Outcome::kGone:
      return pause_proxy();
    case Outcome::kTimedOut:
      return report_no_object("it does not answer");
  }
}

// --- objects that are never left out ---

// The proxy refuses the mesh without any object.
void NackProvenance::try_without_config() {
  const char* const kNone = "it refuses even an empty mesh";
  ProxySettings defaults;
  defaults.cluster_domain = newest_->config.proxy.cluster_domain;
  if (newest_->config.proxy == defaults || search_->known.frozen.contains(model::mesh_config_key()))
    return report_no_object(kNone);
  try_on({}, {model::mesh_config_key()}, [this, kNone](bool accepted) {
    if (!accepted) return report_no_object(kNone);
    conclude({model::mesh_config_key()}, true);
  });
}

// The mesh without the object that was found is accepted. Without it others may have no effect: a
// limit without its Service. Compares what they add to the proxy's resources with the object, and
// without it.
void NackProvenance::compare_fixed(const ObjectKey& found) {
  ObjectSet fixed = sorted_out(*newest_->objects).second;
  for (const ObjectKey& object : search_->known.frozen) fixed.erase(object);
  const bool config = suspects_config(found);
  if (fixed.empty() && !config) return conclude({found}, false);
  const std::set<ObjectKey> here = contributors(*newest_, search_->refusal.workload);
  std::vector<ObjectKey> single;
  for (const ObjectKey& object : fixed)
    if (here.contains(object) && single.size() < kComparedAlone) single.push_back(object);
  const auto pair = [&](const ObjectSet& left_out, ObjectSet without) {
    without.insert(left_out.begin(), left_out.end());
    return ads::ProxyMesh{meshes_.without(known_and(left_out)),
                          meshes_.without(known_and(std::move(without)))};
  };
  std::vector<ads::ProxyMesh> pairs{pair({}, fixed), pair({found}, fixed)};
  for (const ObjectKey& object : single) pairs.push_back(pair({}, {object}));
  if (config) {
    const auto first = std::find(search_->candidates.begin(), search_->candidates.end(), found);
    pairs.push_back(pair({}, {model::mesh_config_key()}));
    pairs.push_back(pair({first, search_->candidates.end()}, {model::mesh_config_key()}));
  }
  for (const ads::ProxyMesh& one : pairs)
    if (!one.mesh || !one.without) return report_no_object("the mesh is not known any more");
  options_.proxies.compare(
      search_->proxy, std::move(pairs),
      in_this_search([this, found, fixed, single](const std::vector<ads::ResourceNames>& names) {
        on_compared(found, fixed, single, names);
      }));
}

// The mesh without the object that was found is accepted. Without a Service the MeshConfig may have
// no effect there. True if that is more likely the cause: it is new to the proxy, and the object is
// not; or nothing is known, and it sets what Envoy may not support.
bool NackProvenance::suspects_config(const ObjectKey& found) const {
  const ObjectKey config = model::mesh_config_key();
  if (search_->known.frozen.contains(config)) return false;
  const auto then = settings_.upper_bound(search_->applied);
  const bool changed =
      search_->applied != 0 && then != settings_.begin() &&
      without_modes(std::prev(then)->second) != without_modes(newest_->config.proxy);
  if (changed || search_->found_elsewhere.contains(config)) return !search_->fresh.contains(found);
  return search_->applied == 0 && newest_->config.proxy.tls != TlsSettings();
}

void NackProvenance::on_compared(const ObjectKey& found, const ObjectSet& fixed,
                                 const std::vector<ObjectKey>& single,
                                 const std::vector<ads::ResourceNames>& differing) {
  if (differing.size() < single.size() + 2) return pause_proxy();  // it is gone
  // Nothing of this type that the MeshConfig shapes was accepted.
  const auto any_refused_type = [&](const ads::ResourceNames& names) {
    return std::ranges::any_of(
        names, [&](const auto& resource) { return resource.first == search_->refusal.type; });
  };
  if (differing.size() == single.size() + 4 && any_refused_type(differing[single.size() + 2]) &&
      !any_refused_type(differing.back()))
    return conclude({model::mesh_config_key()}, true);
  const ads::ResourceNames suspects = minus(differing[0], differing[1]);
  ObjectSet guilty, mentioned;
  for (std::size_t i = 0; i < single.size(); ++i) {
    if (minus(suspects, differing[i + 2]).size() == suspects.size()) continue;
    guilty.insert(single[i]);
    if (mentions(search_->refusal.detail, *newest_, single[i])) mentioned.insert(single[i]);
  }
  if (guilty.empty()) return conclude({found}, false);
  if (!mentioned.empty()) guilty = mentioned;
  // Refused without the resources that contain one: then these are not the cause.
  try_on({}, fixed, [this, found, guilty](bool accepted) {
    if (accepted)
      conclude(guilty, true);
    else
      conclude({found}, false);
  });
}

// --- verdicts ---

void NackProvenance::conclude(const ObjectSet& objects, bool frozen) {
  const ads::Refusal& refusal = search_->refusal;
  const std::string type(xds_type_text(refusal.type));
  for (const ObjectKey& object : objects) {
    const auto elsewhere = search_->found_elsewhere.find(object);
    options_.runtime.log.error(
        frozen ? "a proxy refused an object; it keeps its last good content until that changes"
               : "a proxy refused an object; it is served without it until that changes",
        {{"code", std::string(error_code_text(ErrorCode::kRefusedByProxy))},
         {"object", options_.verdicts.named(object).str()},
         {"uuid", refusal.proxy.id.str()},
         {"workload", refusal.workload.str()},
         {"type", type},
         {"candidates", std::to_string(search_->candidates.size())},
         {"trials", std::to_string(search_->trials)},
         {"found_by", elsewhere == search_->found_elsewhere.end() ? "" : elsewhere->second},
         {"detail", refusal.detail}});
    options_.runtime.metrics.add("osm_nack_total", {{"type", type}, {"object_kind", object.kind}},
                                 1);
    shared_.share(object, refusal.workload.str() + " (" + type + "): " + refusal.detail);
    options_.verdicts.add(search_->proxy, object,
                          {refusal.workload, refusal.type, refusal.detail, frozen},
                          *newest_->objects);
  }
  seen_[search_->proxy] = options_.runtime.clock.steady_now();
  give_own_mesh();
}

// Gives the proxy a mesh for all objects that it was found to refuse.
void NackProvenance::give_own_mesh() {
  const bool given = meshes_.assign(search_->proxy, options_.verdicts.of(search_->proxy));
  options_.verdicts.set_keeping(search_->proxy, !given);
  if (!given)
    return report_no_object("other proxies have the " + std::to_string(OwnMeshes::kMost) +
                            " meshes for proxies that refuse objects");
  refusing_.erase(search_->proxy);
  // The trials may have taken more from the proxy than it is to keep.
  end_search(!options_.verdicts.of(search_->proxy).frozen.empty());
}

// The newest MeshConfig turned off a mode, and the proxy may still be in it.
bool NackProvenance::keeps_too_much() const {
  const auto after = settings_.upper_bound(search_->applied);
  if (search_->accepts_some || search_->applied == 0 || after == settings_.begin()) return false;
  const ProxySettings& then = std::prev(after)->second;
  const ProxySettings& now = newest_->config.proxy;
  return (then.permissive && !now.permissive) || (then.egress && !now.egress) ||
         (then.egress_policy && !now.egress_policy) || (then.ingress && !now.ingress);
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
  options_.runtime.metrics.add("osm_nack_total",
                               {{"type", xds_type_text(refusal.type)}, {"object_kind", "none"}}, 1);
  pause_proxy();
}

// A proxy that answers badly, or disconnects during every trial, must not keep others waiting.
void NackProvenance::pause_proxy() {
  if (RefusingProxy* proxy = find_in(refusing_, search_->proxy)) {
    proxy->ready_at = options_.runtime.clock.steady_now() + proxy->pause;
    proxy->pause = std::min(proxy->pause * 2, kLongestPause);
  }
  end_search();
}

// The proxy goes back to the configuration of its class.
void NackProvenance::end_search(bool restore) {
  timer_.reset();
  options_.proxies.end_trial(search_->proxy, restore);
  search_.reset();
  start_next();
}

// --- proxies that stay away ---

void NackProvenance::look_for_absent() {
  look_ = strand_.post_after(kLook, [this] {
    look_for_absent();
    meshes_.retry();
    if (!options_.verdicts.proxies().empty())
      options_.proxies.list_connected([this](const std::set<model::ProxyKey>& connected) {
        strand_.post([this, connected] { forget_absent(connected); });
      });
  });
}

void NackProvenance::forget_absent(const std::set<model::ProxyKey>& connected) {
  const SteadyTime now = options_.runtime.clock.steady_now();
  for (const model::ProxyKey& proxy : options_.verdicts.proxies()) {
    if (connected.contains(proxy)) seen_[proxy] = now;
    if (now - seen_[proxy] < kAway) continue;
    options_.verdicts.forget(proxy);
    reassign({proxy});
  }
  const std::set<model::ProxyKey> left = options_.verdicts.proxies();
  std::erase_if(seen_, [&](const auto& entry) { return !left.contains(entry.first); });
}

}  // namespace osm::inline v1::nack_provenance
