#include "ads/trials.hpp"

#include <algorithm>
#include <utility>

namespace osm::inline v1::ads {
namespace {

// Time for a proxy to answer. Envoy acknowledges clusters once they are warm.
constexpr std::chrono::seconds kBound{10};

bool holds_what_it_names(const Session& session, XdsType parent, XdsType type) {
  const ResourceSetPtr named_by = session.acknowledged(parent);
  if (!named_by) return false;
  const ResourceSetPtr held = session.acknowledged(type);
  for (const EncodedPtr& resource : named_by->resources())
    for (const auto& reference : resource->references)
      if (reference.type == type && (!held || !held->find(reference.name)) &&
          !session.frozen(type, reference.name))
        return false;
  return true;
}

// The proxy gets what it had before its trials. It keeps resources of the last trial that it had
// not then, or whose content is not known.
ResourceSets restored(ResourceSets before, const std::optional<ResourceSets>& tried) {
  for (XdsType type : kXdsTypes) {
    ResourceSetPtr& set = before[index_of(type)];
    if (!tried || type == XdsType::kSecret) continue;
    const ResourceSetPtr& last = (*tried)[index_of(type)];
    if (!last) continue;
    if (!set) set = ResourceSet::none();
    std::vector<EncodedPtr> others;
    for (const EncodedPtr& resource : last->resources())
      if (!set->find(resource->name)) others.push_back(frozen(*resource));
    set = merged(set, std::move(others));
  }
  return before;
}

}  // namespace

bool holds_what_clusters_name(const Session& session) {
  return holds_what_it_names(session, XdsType::kCluster, XdsType::kEndpoint);
}

bool holds_what_listeners_name(const Session& session) {
  return holds_what_it_names(session, XdsType::kListener, XdsType::kRoute);
}

void Trials::try_on(const model::ProxyKey& proxy, const ProxyMesh& mesh,
                    std::function<void(const TrialResult&)> done) {
  Stream* const serving = deps_.streams.serving(proxy);
  if (!serving) return done({});
  Stream& stream = *serving;
  // Until the sets are built, the proxy keeps those of the trial before.
  Trial& trial = trials_[stream.id];
  trial.number = ++last_trial_;
  trial.done = std::move(done);
  trial.deadline = deps_.runtime.clock.steady_now() + kBound;
  trial.ends = trial.restoring = false;
  if (mesh.mesh && !trial.before) {
    trial.before.emplace();
    for (XdsType type : kXdsTypes)
      (*trial.before)[index_of(type)] = stream.session->last_good(type);
  }
  trial.building = mesh.mesh != nullptr;
  if (mesh.mesh) {
    BuildJob job{mesh.mesh, mesh.without, deps_.class_in(*mesh.mesh, stream), {}, true,
                 {},        deps_.hook};
    build_aside(std::move(job), [this, id = stream.id, number = last_trial_](ResourceSets sets) {
      const Trial* built = find_in(trials_, id);
      if (built && built->number == number) begin(deps_.streams.at(id), std::move(sets));
    });
    return;
  }
  if (trial.sets) {
    trial.sets.reset();
    deps_.give_sets(stream);
  }
  deps_.queue.push(stream.id);
  deps_.pump();
}

// Builds on the pool and calls `then` on the strand.
void Trials::build_aside(BuildJob job, std::function<void(ResourceSets)> then) {
  deps_.runtime.executor.post(aside_.guard([this, job = std::move(job), then = std::move(then)] {
    deps_.strand.post([then, sets = build(job, deps_.cache).sets] { then(sets); });
  }));
}

void Trials::begin(Stream& stream, ResourceSets sets) {
  Trial& trial = trials_.at(stream.id);
  // An empty set is never pushed, since there is nothing in it to refuse.
  const auto keep_if_empty = [&](XdsType type) {
    ResourceSetPtr& set = sets[index_of(type)];
    const ResourceSetPtr held = stream.session->sent(type);
    const bool empty = held && (!set || set->empty());
    if (empty) set = held;
    return empty;
  };
  trial.without_clusters = keep_if_empty(XdsType::kCluster);
  trial.without_listeners = keep_if_empty(XdsType::kListener);
  trial.sets = std::move(sets);
  trial.building = false;
  deps_.give_sets(stream);
  deps_.pump();
}

bool Trials::on_trial(const Stream& stream) const {
  const Trial* trial = find_in(trials_, stream.id);
  return trial && trial->sets;
}

ResourceSets Trials::sets_for(const Stream& stream) const {
  const ResourceSets& own = stream.proxy_class->sets();
  if (!on_trial(stream)) return own;
  ResourceSets sets = *trials_.at(stream.id).sets;
  sets[index_of(XdsType::kSecret)] = own[index_of(XdsType::kSecret)];
  return sets;
}

void Trials::judge(const Stream& stream) {
  const Trial* trial = find_in(trials_, stream.id);
  if (trial && trial->restoring) return judge_restoring(stream.id);
  if (!trial || !trial->done || trial->building) return;
  const Session& session = *stream.session;
  if (session.unanswered()) return;
  if (!trial->sets && !stream.proxy_class->current()) return;
  const bool clusters = !trial->sets || !trial->without_clusters;
  const bool listeners = !trial->sets || !trial->without_listeners;
  const auto judged = [&](XdsType type) {
    if (type == XdsType::kCluster || type == XdsType::kEndpoint) return clusters;
    // Secrets do not depend on objects, and are no part of a trial.
    return type != XdsType::kSecret && listeners;
  };
  for (XdsType type : kXdsTypes) {
    const ProxyTypeState state = session.state(type);
    if (state.state == SyncState::kStale && judged(type))
      return tell(stream, {TrialResult::Outcome::kRefused, type, state.nack_detail});
  }
  if ((!clusters || holds_what_clusters_name(session)) &&
      (!listeners || holds_what_listeners_name(session)))
    tell(stream, {.outcome = TrialResult::Outcome::kAccepted,
                  .type = {},
                  .detail = {},
                  .kept = !clusters || !listeners});
}

void Trials::tell(const Stream& stream, TrialResult result) {
  result.applied_generation = deps_.applied(stream);
  std::exchange(trials_.at(stream.id).done, nullptr)(result);
}

void Trials::judge_restoring(StreamId id) {
  if (deps_.streams.at(id).session->unanswered()) return;
  trials_.at(id).restoring = false;
  release();
}

void Trials::end_trial(const model::ProxyKey& proxy, bool restore) {
  Stream* const serving = deps_.streams.serving(proxy);
  Trial* trial = serving ? find_in(trials_, serving->id) : nullptr;
  if (!trial) return;
  trial->ends = true;
  trial->done = nullptr;
  trial->building = false;
  if (restore && trial->before) {
    trial->restoring = true;
    trial->deadline = deps_.runtime.clock.steady_now() + kBound;
    trial->number = ++last_trial_;
    trial->sets = restored(*trial->before, trial->sets);
    deps_.give_sets(*serving);
    return deps_.pump();
  }
  release();
}

void Trials::release() {
  std::vector<StreamId> released;
  for (const auto& [id, trial] : trials_)
    if (trial.ends && !trial.restoring && deps_.streams.at(id).proxy_class->current())
      released.push_back(id);
  for (StreamId id : released) {
    trials_.erase(id);
    deps_.give_sets(deps_.streams.at(id));
  }
  if (!released.empty()) deps_.pump();
}

void Trials::forget(StreamId gone) {
  const auto node = trials_.extract(gone);
  if (!node.empty() && node.mapped().done) node.mapped().done({});
}

void Trials::tick(SteadyTime now) {
  for (auto& [id, trial] : trials_) trial.restoring = trial.restoring && now < trial.deadline;
  release();
  for (const auto& [id, trial] : trials_) {
    if (!trial.done) continue;
    deps_.queue.push(id);
    if (now < trial.deadline) continue;
    // The proxy answered all responses and asked for nothing more, so it refuses nothing.
    const Stream& stream = deps_.streams.at(id);
    const bool answered = !trial.building && !stream.session->unanswered();
    const auto outcome =
        answered ? TrialResult::Outcome::kAccepted : TrialResult::Outcome::kTimedOut;
    tell(stream, {outcome, {}, {}});
  }
}

void Trials::compare(const model::ProxyKey& proxy, const std::vector<ProxyMesh>& pairs,
                     std::function<void(std::vector<ResourceNames>)> done) {
  const Stream* const serving = deps_.streams.serving(proxy);
  if (!serving) return done({});
  std::vector<BuildJob> jobs;
  for (const ProxyMesh& pair : pairs)
    jobs.push_back(
        {pair.mesh, pair.without, deps_.class_in(*pair.mesh, *serving), {}, true, {}, deps_.hook});
  deps_.runtime.executor.post(aside_.guard([this, jobs = std::move(jobs), done = std::move(done)] {
    std::vector<ResourceNames> differing;
    for (const BuildJob& job : jobs) {
      ResourceNames& names = differing.emplace_back();
      for (const ResourceSetPtr& set : build(job, deps_.cache).sets)
        if (set)
          for (const EncodedPtr& resource : set->resources())
            if (resource->frozen) names.emplace(resource->type, resource->name);
    }
    deps_.strand.post([done, differing = std::move(differing)] { done(differing); });
  }));
}

}  // namespace osm::inline v1::ads
