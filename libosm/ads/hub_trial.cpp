// Trials; members of Hub.
#include <algorithm>
#include <utility>
#include <vector>

#include "ads/hub.hpp"

namespace osm::inline v1::ads {
namespace {

// Limit of classes that are built for one answer of ask_others().
constexpr std::size_t kMaxClasses = 64;

// "rds-inbound.14001" → "rds-inbound", "outbound_10.96.0.1_80" → "outbound": ports and addresses
// differ between proxies in the same role.
std::string role_of(const EncodedResource& resource) {
  if (resource.type == XdsType::kRoute) return resource.name.substr(0, resource.name.find('.'));
  if (resource.type == XdsType::kListener) return resource.name.substr(0, resource.name.find('_'));
  return resource.name;
}

template <class T>
bool share_one(const std::set<T>& a, const std::vector<T>& b) {
  return std::any_of(b.begin(), b.end(), [&](const T& one) { return a.contains(one); });
}

// The configuration of one class with an object and without it, compared off the strand.
struct Comparison {
  BuildJob without;
  ResourceSetPtr with;

  // Roles of the resources that the object adds or changes.
  std::set<std::string> roles(XdsType type, ResourceCache& cache) const {
    return roles_missing(with, build(without, cache).sets[index_of(type)]);
  }
};

bool holds_what_it_names(const Session& session, XdsType parent, XdsType type) {
  const ResourceSetPtr named_by = session.acknowledged(parent);
  if (!named_by) return false;
  const ResourceSetPtr held = session.acknowledged(type);
  for (const EncodedPtr& resource : named_by->resources())
    for (const auto& reference : resource->references)
      if (reference.type == type && (!held || !held->find(reference.name))) return false;
  return true;
}

}  // namespace

bool holds_what_clusters_name(const Session& session) {
  return holds_what_it_names(session, XdsType::kCluster, XdsType::kEndpoint);
}

bool holds_what_listeners_name(const Session& session) {
  return holds_what_it_names(session, XdsType::kListener, XdsType::kRoute);
}

std::set<std::string> roles_missing(const ResourceSetPtr& whole, const ResourceSetPtr& part) {
  std::set<std::string> roles;
  if (!whole) return roles;
  for (const EncodedPtr& resource : changed(part, *whole)) roles.insert(role_of(*resource));
  return roles;
}

void Hub::try_on(const model::ProxyKey& proxy, TrialHost::MeshPtr mesh,
                 std::function<void(const TrialResult&)> done) {
  const StreamId* serving = find_in(serving_, proxy);
  if (!serving) return done({});
  Stream& stream = streams_.at(*serving);
  // Until the sets are built, the proxy keeps those of the trial before.
  Trial& trial = trials_[stream.id];
  trial.number = ++last_trial_;
  trial.done = std::move(done);
  trial.deadline = deps_.runtime.clock.steady_now() + Trial::kBound;
  trial.ends_with.reset();
  trial.building = mesh != nullptr;
  if (mesh) {
    BuildJob job{mesh, class_in(*mesh, stream), {}, true, {}, deps_.hook};
    build_aside(std::move(job), [this, id = stream.id, number = last_trial_](ResourceSets sets) {
      const Trial* built = find_in(trials_, id);
      if (built && built->number == number) begin_trial(streams_.at(id), std::move(sets));
    });
    return;
  }
  if (trial.sets) {
    trial.sets.reset();
    give_sets(stream, SteadyTime::max());
  }
  queue_.push(stream.id);
  pump();
}

// Builds on the pool and calls `then` on the strand.
void Hub::build_aside(BuildJob job, std::function<void(ResourceSets)> then) {
  deps_.runtime.executor.post(aside_.guard([this, job = std::move(job), then = std::move(then)] {
    deps_.strand.post([then, sets = build(job, classes_.cache()).sets] { then(sets); });
  }));
}

void Hub::begin_trial(Stream& stream, ResourceSets sets) {
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
  give_sets(stream, SteadyTime::max());
  pump();
}

bool Hub::on_trial(const Stream& stream) const {
  const Trial* trial = find_in(trials_, stream.id);
  return trial && trial->sets;
}

// The resources that a stream is to hold now.
ResourceSets Hub::sets_for(const Stream& stream) const {
  const ResourceSets& own = stream.proxy_class->sets();
  if (!on_trial(stream)) return own;
  ResourceSets sets = *trials_.at(stream.id).sets;
  sets[index_of(XdsType::kSecret)] = own[index_of(XdsType::kSecret)];
  return sets;
}

// Nothing is due for this stream: ends its trial if the proxy has answered everything.
void Hub::judge_trial(const Stream& stream) {
  const Trial* trial = find_in(trials_, stream.id);
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
      return tell_trial(stream, {TrialResult::Outcome::kRefused, type, state.nack_detail});
  }
  if ((!clusters || holds_what_clusters_name(session)) &&
      (!listeners || holds_what_listeners_name(session)))
    tell_trial(stream, {.outcome = TrialResult::Outcome::kAccepted,
                        .type = {},
                        .detail = {},
                        .kept = !clusters || !listeners});
}

void Hub::tell_trial(const Stream& stream, TrialResult result) {
  result.applied_generation = applied(stream);
  std::exchange(trials_.at(stream.id).done, nullptr)(result);
}

void Hub::end_trial(const model::ProxyKey& proxy, std::uint64_t generation) {
  const StreamId* serving = find_in(serving_, proxy);
  Trial* trial = serving ? find_in(trials_, *serving) : nullptr;
  if (!trial) return;
  trial->ends_with = generation;
  trial->done = nullptr;
  release_trials();
}

// Ends trials whose class has reached the generation to wait for. Earlier, the proxies would be
// sent what they just refused.
void Hub::release_trials() {
  std::vector<StreamId> released;
  for (const auto& [id, trial] : trials_)
    if (trial.ends_with && snapshot_->generation >= *trial.ends_with &&
        streams_.at(id).proxy_class->current())
      released.push_back(id);
  for (StreamId id : released) {
    trials_.erase(id);
    give_sets(streams_.at(id), SteadyTime::max());
  }
  if (!released.empty()) pump();
}

void Hub::forget_trial(StreamId gone) {
  const auto node = trials_.extract(gone);
  if (!node.empty() && node.mapped().done) node.mapped().done({});
}

void Hub::tick_trials(SteadyTime now) {
  release_trials();
  for (const auto& [id, trial] : trials_) {
    if (!trial.done) continue;
    queue_.push(id);
    if (now < trial.deadline) continue;
    // The proxy answered all responses and asked for nothing more, so it refuses nothing.
    const Stream& stream = streams_.at(id);
    const bool answered = !trial.building && !stream.session->unanswered();
    const auto outcome =
        answered ? TrialResult::Outcome::kAccepted : TrialResult::Outcome::kTimedOut;
    tell_trial(stream, {outcome, {}, {}});
  }
}

void Hub::ask_others(const model::ProxyKey& proxy, XdsType type, const TrialHost::MeshPtr& without,
                     std::function<void(OtherProxies)> done) {
  const StreamId* serving = find_in(serving_, proxy);
  if (!serving) return done(OtherProxies::kNone);
  const auto compare = [&](const Stream& stream) {
    return Comparison{{without, class_in(*without, stream), {}, true, {}, deps_.hook},
                      stream.proxy_class->sets()[index_of(type)]};
  };
  const Stream& refusing = streams_.at(*serving);
  const Comparison own = compare(refusing);
  const model::Changes& changes = without->changes;
  std::map<ProxyClassPtr, Comparison> others;
  bool undecided = false;
  for (const auto& [key, id] : serving_) {
    const Stream& stream = streams_.at(id);
    const ProxyClassPtr& entry = stream.proxy_class;
    if (id == refusing.id) continue;
    if (!changes.everything && !changes.identities.contains(entry->proxy_class().identity) &&
        !share_one(changes.services, entry->reads()))
      continue;
    if (!entry->current() || stream.session->unanswered()) {
      undecided = true;
    } else if (stream.session->settled() && others.size() < kMaxClasses) {
      others.try_emplace(entry, compare(stream));
    }
  }
  deps_.runtime.executor.post(aside_.guard(
      [this, type, own, others = std::move(others), undecided, done = std::move(done)] {
        const std::set<std::string> refused = own.roles(type, classes_.cache());
        const bool accepted = std::any_of(others.begin(), others.end(), [&](const auto& other) {
          const std::set<std::string> roles = other.second.roles(type, classes_.cache());
          return std::any_of(roles.begin(), roles.end(),
                             [&](const std::string& role) { return refused.contains(role); });
        });
        deps_.strand.post([done, answer = accepted    ? OtherProxies::kAccepted
                                          : undecided ? OtherProxies::kUndecided
                                                      : OtherProxies::kNone] { done(answer); });
      }));
}

}  // namespace osm::inline v1::ads
