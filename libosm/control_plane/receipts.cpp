#include "control_plane/receipts.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/maps.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::inline v1::control_plane {
namespace {

// Number of lagging proxies that an error names.
constexpr std::size_t kNamed = 5;

Error no_such_object(const ObjectKey& object) {
  return {ErrorCode::kNotFound, object.str() +
                                    " is not in the mesh: it does not exist, its namespace is not "
                                    "monitored, or its kind shapes no proxy"};
}

// The reason why a written object is ignored; nullopt: it is not written, or its namespace is one
// of the mesh. MeshSpec::list_problems() names one such object of a namespace only.
std::optional<Problem> why_ignored(const MeshSpec& spec, const ObjectKey& object) {
  const auto source = object.ns.empty() ? std::nullopt : spec.source_of(object);
  if (!source) return std::nullopt;
  const auto namespaces = spec.list_namespaces();
  if (std::find(namespaces.begin(), namespaces.end(), object.ns) != namespaces.end())
    return std::nullopt;
  Problem problem{.code = ErrorCode::kDanglingReference,
                  .object = object,
                  .path = {},
                  .field = "metadata.namespace",
                  .cause = "namespace " + object.ns +
                           " is not in the mesh, so the object has no effect; label a Namespace "
                           "object with " +
                           spec::kMonitoredByLabel};
  problem.locate(*source);
  return problem;
}

// `effective`: something of the mesh comes from the object.
ObjectPhase phase_of(const ObjectStatus& status, bool pending, bool effective) {
  if (pending) return ObjectPhase::kPending;
  if ((status.removed || !effective) && !status.problems.empty()) return ObjectPhase::kRejected;
  if (status.lagging.empty()) return ObjectPhase::kApplied;
  const bool all_refused = std::all_of(status.lagging.begin(), status.lagging.end(),
                                       [](const ProxyLag& lag) { return lag.refused; });
  return all_refused ? ObjectPhase::kRefused : ObjectPhase::kPending;
}

// The phase over all replicas.
ObjectPhase with_others(ObjectPhase phase, const ObjectStatus& status) {
  const bool known = status.replicas_behind.empty() && status.replicas_known;
  return phase == ObjectPhase::kApplied && !known ? ObjectPhase::kPending : phase;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Error rejected(const ObjectStatus& status) { return status.problems.front().error(); }

Error refused_by_proxies(const ObjectStatus& status) {
  for (const Problem& problem : status.problems)
    if (problem.code == ErrorCode::kRefusedByProxy) return {problem.code, problem.text()};
  return {ErrorCode::kRefusedByProxy, status.object.str() + " is refused by " +
                                          status.lagging.front().workload.str() + ": " +
                                          status.lagging.front().detail};
}

Error too_late(const ObjectStatus& status) {
  std::string text = status.object.str() +
                     " is not applied everywhere: " + std::to_string(status.applied) + " of " +
                     std::to_string(status.concerned) + " proxies have generation " +
                     std::to_string(status.generation);
  for (std::size_t i = 0; i < std::min(kNamed, status.lagging.size()); ++i) {
    const ProxyLag& lag = status.lagging[i];
    text += (i == 0 ? "; behind: " : ", ") + lag.workload.str();
    if (lag.refused) text += " (refused: " + lag.detail + ")";
  }
  if (status.lagging.size() > kNamed)
    text += " and " + std::to_string(status.lagging.size() - kNamed) + " more";
  if (!status.replicas_behind.empty())
    text += "; replicas that have not read it: " + list_of(status.replicas_behind);
  if (!status.replicas_unknown.empty())
    text += "; replicas that cannot tell: " + list_of(status.replicas_unknown);
  if (!status.replicas_known) text += "; it is not known which other replicas live";
  return {ErrorCode::kDeadlineExceeded, std::move(text)};
}

}  // namespace

// Sleeps until another check is useful: something was read, a generation came, or every proxy that
// lagged at the last check progressed.
class Receipts::Wait {
 public:
  Wait(const Receipts& receipts, std::chrono::milliseconds timeout)
      : deadline_(std::chrono::steady_clock::now() + timeout),
        looks_(receipts.options_.mesh.subscribe_looks([this] { wake(); })),
        stopping_(receipts.stopping_.subscribe([this] { wake(); })),
        others_(receipts.options_.subscribe_others([this] { wake(); })),
        progress_(receipts.options_.proxies.subscribe_progress(
            [this](const model::ProxyKey* proxy) { proxy ? moved(*proxy) : wake(); })) {}

  void begin_look() {
    std::lock_guard lock(mutex_);
    woken_ = false;
    moved_.clear();
  }

  // Result: false if the deadline has passed.
  bool sleep(const std::vector<model::ProxyKey>& lagging) {
    std::unique_lock lock(mutex_);
    behind_ = {lagging.begin(), lagging.end()};
    // A proxy that progressed during the check may have been read before that.
    woken_ |= std::any_of(lagging.begin(), lagging.end(),
                          [this](const model::ProxyKey& proxy) { return moved_.contains(proxy); });
    const bool in_time = changed_.wait_until(lock, deadline_, [this] { return woken_; });
    behind_.clear();
    return in_time;
  }

 private:
  void wake() {
    std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }
  void moved(const model::ProxyKey& proxy) {
    std::lock_guard lock(mutex_);
    moved_.insert(proxy);
    if (behind_.erase(proxy) == 0 || !behind_.empty()) return;
    woken_ = true;
    changed_.notify_one();
  }

  const std::chrono::steady_clock::time_point deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::set<model::ProxyKey> behind_;  // while asleep
  std::set<model::ProxyKey> moved_;   // since the last check began
  Subscription looks_;
  Subscription stopping_;
  Subscription others_;
  Subscription progress_;
};

Receipts::Receipts(ReceiptsOptions options) : options_(std::move(options)) {}

Result<ObjectStatus> Receipts::status(const ObjectKey& object) const {
  OSM_TRY(Answer answer, look(object));
  return std::move(answer.status);
}

Result<Receipts::Answer> Receipts::look(const ObjectKey& object) const {
  const std::string control_plane = options_.spec.control_plane_namespace();
  const ObjectKey key = known_as(object, control_plane);
  const catalog::ObjectState state = options_.mesh.object_state(key);
  if (!state.snapshot)
    return Error{ErrorCode::kNotReady,
                 "the mesh is not known yet; /health/ready names what is missing"};

  Answer answer;
  ObjectStatus& status = answer.status;
  status.object = object;
  status.generation = state.generation;
  status.removed = !state.present;
  for (Problem& problem : options_.problems())
    if (known_as(problem.object, control_plane) == key)
      status.problems.push_back(std::move(problem));
  if (status.removed && status.problems.empty())
    if (auto ignored = why_ignored(options_.spec, object))
      status.problems.push_back(*std::move(ignored));
  if (state.generation == 0 && !state.pending && status.problems.empty())
    return no_such_object(object);

  std::map<model::ProxyKey, WorkloadName> waited_for;
  std::vector<model::ProxyKey> asked;
  for (const auto& entry : model::workloads_in(state.entries, *state.snapshot)) {
    waited_for.emplace(entry->proxy, entry->workload.name);
    asked.push_back(entry->proxy);
  }
  const auto refusing = options_.refusing(key);
  std::size_t refused = 0;
  for (ads::ProxyProgress& progress : options_.proxies.progress(asked)) {
    const auto at = waited_for.find(progress.proxy);
    ++status.concerned;
    if (const auto* verdict = find_in(refusing, progress.proxy)) {
      ++refused;
      progress = {progress.proxy, 0, true, verdict->detail};
    }
    if (progress.generation >= state.generation) {
      ++status.applied;
    } else {
      status.lagging.push_back(
          {progress.proxy.id, at->second, progress.refused, std::move(progress.detail)});
      answer.lagging.push_back(progress.proxy);
    }
    waited_for.erase(at);
  }
  refused += add_others(*options_.others(), key, state, waited_for, status);
  for (const auto& [proxy, workload] : waited_for) status.not_connected.push_back(workload);
  std::sort(status.not_connected.begin(), status.not_connected.end());
  std::sort(status.lagging.begin(), status.lagging.end(),
            [](const ProxyLag& a, const ProxyLag& b) { return a.workload < b.workload; });
  status.phase = with_others(phase_of(status, state.pending, state.effective), status);
  answer.refused_for_good =
      refused != 0 && refused == status.lagging.size() && status.phase == ObjectPhase::kRefused;
  // A stopped server knows no proxies, which would read as if none were lagging.
  if (stopped_)
    return Error{ErrorCode::kUnavailable, object.str() + ": the control plane shuts down"};
  return answer;
}

Result<ObjectStatus> Receipts::wait_until_applied(const ObjectKey& object,
                                                  std::chrono::milliseconds timeout) const {
  Wait wait(*this, timeout);
  for (;;) {
    wait.begin_look();
    OSM_TRY(Answer answer, look(object));
    if (answer.status.phase == ObjectPhase::kApplied) return std::move(answer.status);
    if (answer.status.phase == ObjectPhase::kRejected) return rejected(answer.status);
    if (answer.refused_for_good) return refused_by_proxies(answer.status);
    if (!wait.sleep(answer.lagging)) return too_late(answer.status);
  }
}

void Receipts::stop() {
  stopped_ = true;
  stopping_.notify();
}

}  // namespace osm::inline v1::control_plane
