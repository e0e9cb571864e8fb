#include "kubernetes/upkeep/status_writer.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <iterator>
#include <utility>

#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/times.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kStatusManager = "osm-status-";  // the mesh's name follows
constexpr std::chrono::seconds kPeriod{1};             // between two rounds of writing
constexpr std::chrono::seconds kLookAtAll{30};         // longest delay of counts of proxies
constexpr double kBurst = 100;                         // objects at once, then
constexpr std::chrono::milliseconds kSpacing{100};     // one every
constexpr std::size_t kMaxMessageBytes = 4096;         // the CRDs take 32768
constexpr std::size_t kMaxDetailBytes = 256;           // of a proxy
constexpr std::size_t kMaxNamed = 3;                   // proxies in a message

std::string texts_of(const std::vector<Problem>& problems) {
  std::string out;
  for (const Problem& problem : problems) {
    out.append(out.empty() ? "" : "; ");
    out.append(problem.field).append(problem.field.empty() ? "" : ": ").append(problem.cause);
    if (out.size() > kMaxMessageBytes) return cut(std::move(out), kMaxMessageBytes) + "...";
  }
  return out;
}

Condition accepted(const ObjectStatus& status) {
  const std::string wrong = texts_of(status.problems);
  if (status.phase == ObjectPhase::kRejected) {
    const std::string what = status.removed ? "left out of the mesh" : "without effect";
    return {"Accepted", "False",
            status.problems.empty() ? "Rejected" : reason_text(status.problems.front().code),
            wrong.empty() ? what : what + ": " + wrong};
  }
  return {"Accepted", "True", "Accepted", wrong.empty() ? "in use" : "in use, but: " + wrong};
}

// Names a few workloads, not all proxies, so that a large mesh does not write a large status.
std::string laggards(const ObjectStatus& status) {
  std::string out;
  std::size_t named = 0;
  for (const ProxyLag& lag : status.lagging) {
    if (!lag.refused) continue;
    if (++named > kMaxNamed) return out + "; ...";
    out += "; " + lag.workload.str() + " refuses it: " + cut(lag.detail, kMaxDetailBytes);
  }
  return out;
}

// Information beyond the count.
std::string more_of(const ObjectStatus& status) {
  const auto some = [&](const std::vector<std::string>& replicas, std::string_view what) {
    if (replicas.empty()) return std::string();
    return "; " + std::to_string(replicas.size()) + " of " + std::to_string(status.replicas) +
           " replicas of the control plane " + std::string(what);
  };
  return laggards(status) + some(status.replicas_behind, "have not read it yet") +
         some(status.replicas_unknown, "cannot tell which proxies have it");
}

Condition programmed(const ObjectStatus& status) {
  const std::string count = std::to_string(status.applied) + '/' +
                            std::to_string(status.concerned) + " proxies" + more_of(status);
  switch (status.phase) {
    case ObjectPhase::kApplied:
      return {"Programmed", "True", "Programmed", count};
    case ObjectPhase::kRefused:
      return {"Programmed", "False", "RefusedByProxy", count};
    case ObjectPhase::kRejected:
      return {"Programmed", "False", "NotAccepted", "no proxy has it: see Accepted"};
    case ObjectPhase::kPending:
      break;
  }
  return {"Programmed", "False", "Pending", count};
}

std::string status_in(const std::vector<Condition>& conditions, std::string_view type) {
  for (const Condition& condition : conditions)
    if (condition.type == type) return condition.status;
  return {};
}

}  // namespace

StatusWriter::StatusWriter(Api& api, const Runtime& runtime, StatusWriterOptions options)
    : api_(api),
      runtime_(runtime),
      options_(std::move(options)),
      events_(api, runtime, options_.store, options_.replica),
      budget_(runtime_.clock, kBurst, kSpacing),
      strand_(runtime_.blocking),
      round_(strand_, runtime_.rng,
             {.turn = [this] { return run(); },
              .may_run = options_.may_write,
              .forget = [this] { forget(); },
              .collect = [] { return kPeriod; }}) {
  on_mesh();
}

void StatusWriter::on_objects(const std::vector<ObjectKey>& keys) {
  std::set<ObjectKey> touched;
  bool all = false;
  for (const ObjectKey& key : keys) {
    if (has_status(key)) touched.insert(key);
    // The namespace may have entered or left the mesh with all its objects.
    all |= key.is(kinds::kNamespace);
  }
  if (touched.empty() && !all) return;
  strand_.post([this, touched = std::move(touched), all] {
    due_.insert(touched.begin(), touched.end());
    look_at_all_ |= all;
    round_.wake();
  });
}

// A status that this writer wrote itself is no news.
void StatusWriter::on_statuses(const std::vector<ObjectKey>& keys) {
  strand_.post([this, keys] {
    bool news = false;
    for (const ObjectKey& key : keys) {
      const auto ours = written_.find(key);
      if (ours == written_.end()) continue;
      const bool same = ours->second.version == options_.stored->status_of(key).version;
      ours->second.seen = ours->second.seen || same;
      news = news || !same;
    }
    if (news && wrote_) round_.wake();
  });
}

void StatusWriter::on_mesh() {
  stale_ = true;
  round_.wake();
}

Pause StatusWriter::run() {
  // Before every namespace is known, each object looks as if it were outside the mesh.
  if (!options_.store.has_synced()) return {kPeriod};
  const std::vector<Problem> problems = options_.problems();
  choose_due();
  collect(problems);
  std::erase_if(due_, [this](const ObjectKey& key) { return survey(key); });
  unfinished_ = false;
  if (options_.may_write() && (wrote_ || take_over())) {
    wrote_ = true;
    write_statuses();
    events_.tell(problems);
    unfinished_ |= events_.behind();
  } else {
    unfinished_ |= options_.may_write();
  }
  const bool unsettled = std::any_of(known_.begin(), known_.end(),
                                     [](const auto& one) { return !one.second.settled; });
  if (!due_.empty() || unfinished_ || unsettled) return {kPeriod};
  return stale_ ? Pause{kLookAtAll} : Pause{};
}

void StatusWriter::forget() {
  wrote_ = false;
  written_.clear();
  due_.clear();
  known_.clear();
  problems_.clear();
  look_at_all_ = true;
}

// Reads the statuses of the previous writer, so that only differences are written, and conditions
// of objects that left the mesh are cleared.
bool StatusWriter::take_over() {
  written_.clear();
  for (const spec::Kind& kind : options_.kinds) {
    if (!kind.status) continue;
    if (options_.stored != nullptr) {
      for (const auto& object : options_.store.list(kind.name)) {
        const StoredStatus stored = options_.stored->status_of(object->key);
        Written there = stored.status ? read_status(*stored.status) : Written();
        if (!there.conditions.empty()) written_[object->key] = std::move(there);
      }
      continue;
    }
    const bool own = kind.scope == spec::Scope::kControlPlane;
    const auto objects =
        list_all(api_, {.resource = resource_of(kind), .ns = own ? options_.osm_namespace : ""});
    if (!objects.ok() && objects.error().code == ErrorCode::kNotFound) continue;  // no CRD
    if (!objects.ok()) return false;
    for (const json::object& object : *objects) {
      const Metadata metadata = metadata_of(object);
      const json::value* const status = object.if_contains("status");
      Written there = status != nullptr ? read_status(*status) : Written();
      if (there.conditions.empty()) continue;
      there.uid = metadata.uid;
      written_[{kind.name, metadata.ns, metadata.name}] = std::move(there);
    }
  }
  return true;
}

StatusWriter::Written StatusWriter::read_status(const json::value& status) {
  Written there;
  for (const char* type : {"Accepted", "Programmed"}) {
    for (const json::value& one : list_at(status, "conditions")) {
      if (text_at(one, "type") != type) continue;
      there.generation = number_at(one, "observedGeneration");
      there.conditions.push_back(
          {type, text_at(one, "status"), text_at(one, "reason"), text_at(one, "message")});
      there.since[type] = text_at(one, "lastTransitionTime");
    }
  }
  return there;
}

// The status that the object has now: as the store has it, unless this writer wrote since. A store
// that goes back behind what it has told is a cluster's that was restored.
StatusWriter::Written& StatusWriter::present(const ObjectKey& key, const Known& known) {
  Written& there = written_[key];
  // A new object can have the generation of the deleted one, but it has no status.
  if (!there.uid.empty() && there.uid != known.uid) there = {};
  if (options_.stored == nullptr) return there;
  const StoredStatus stored = options_.stored->status_of(key);
  if (stored.version.empty()) return there;
  there.seen = there.seen || there.version == stored.version;
  if (there.seen ? there.version == stored.version : not_older(there.version, stored.version))
    return there;
  there = stored.status ? read_status(*stored.status) : Written();
  there.version = stored.version;
  there.seen = true;
  return there;
}

void StatusWriter::choose_due() {
  const SteadyTime now = runtime_.clock.steady_now();
  if (std::exchange(look_at_all_, false) || (stale_ && now - looked_at_all_ >= kLookAtAll)) {
    looked_at_all_ = now;
    stale_ = false;
    for (const spec::Kind& kind : options_.kinds)
      if (kind.status)
        for (const auto& object : options_.store.list(kind.name)) due_.insert(object->key);
  }
  for (const auto& [key, known] : known_)
    if (!known.settled) due_.insert(key);
}

bool StatusWriter::has_status(const ObjectKey& key) const {
  const spec::Kind* kind = spec::find_kind(options_.kinds, key.group_kind());
  return kind != nullptr && kind->status;
}

// Collects objects whose problems changed.
void StatusWriter::collect(const std::vector<Problem>& problems) {
  std::map<ObjectKey, std::vector<Problem>> now;
  for (const Problem& problem : problems)
    if (has_status(problem.object)) now[problem.object].push_back(problem);
  for (const auto& [key, own] : now) {
    const auto before = problems_.find(key);
    if (before == problems_.end() || before->second != own) due_.insert(key);
  }
  for (const auto& [key, own] : problems_)
    if (!now.contains(key)) due_.insert(key);
  problems_ = std::move(now);
}

// True if it was known, or is known to be outside the mesh.
bool StatusWriter::survey(const ObjectKey& key) {
  const auto object = options_.store.get(key);
  // The control plane's namespace need not be in the mesh.
  const spec::Kind* kind = spec::find_kind(options_.kinds, key.group_kind());
  const bool own = kind != nullptr && spec::counts_in_control_plane(kind->scope) &&
                   key.ns == options_.osm_namespace;
  const bool in_mesh = own || is_monitored(options_.store, key.ns, options_.mesh_name);
  const auto status = object && in_mesh ? options_.status_of(key) : Error{ErrorCode::kNotFound, ""};
  if (status.ok()) {
    const json::object& metadata = map_at(*object->document, "metadata");
    known_[key] = {
        .uid = text_at(metadata, "uid"),
        .generation = number_at(metadata, "generation"),
        .accepted = accepted(*status),
        .programmed = programmed(*status),
        .settled =
            status->phase == ObjectPhase::kApplied || status->phase == ObjectPhase::kRejected,
        .replicas_lag = status->phase == ObjectPhase::kPending && !status->replicas_behind.empty(),
        .replicas_known = status->replicas_known};
    return true;
  }
  known_.erase(key);
  return status.error().code == ErrorCode::kNotFound ||
         status.error().code == ErrorCode::kInvalidArgument;
}

void StatusWriter::write_statuses() {
  // Begins where the last round ran out of writes, so that objects that change all the time do not
  // delay the others.
  const auto first = known_.lower_bound(std::exchange(next_, ObjectKey()));
  const auto write_from = [&](auto at, auto end) {
    while (at != end && next_ == ObjectKey()) {
      if (!write_status(at->first, at->second)) next_ = at->first;
      ++at;
    }
  };
  write_from(first, known_.end());
  write_from(known_.begin(), first);
  clear_others();
}

// Result: false if no more may be written in this round.
bool StatusWriter::write_status(const ObjectKey& key, const Known& known) {
  // While it is not known which replicas live, nothing is claimed.
  if (!known.replicas_known) return true;
  Written& there = present(key, known);
  // A replica that has just come takes back nothing of what was said of this version.
  const bool said_before =
      there.generation == known.generation && status_in(there.conditions, "Programmed") == "True";
  if (known.replicas_lag && said_before) return true;
  Written wanted{known.uid, known.generation, {known.accepted, known.programmed}, there.since};
  if (there.generation == wanted.generation && there.conditions == wanted.conditions) return true;
  if (!may_patch()) return false;
  for (const Condition& condition : wanted.conditions)
    if (status_in(there.conditions, condition.type) != condition.status)
      wanted.since[condition.type] = rfc3339(runtime_.clock.wall_now());
  if (patch(key, wanted).ok()) there = std::move(wanted);
  return true;
}

// Clears the conditions of objects that left the mesh.
void StatusWriter::clear_others() {
  for (auto at = written_.begin(); at != written_.end();) {
    const ObjectKey& key = at->first;
    bool done = !known_.contains(key) && !due_.contains(key);
    if (done && !at->second.conditions.empty() && options_.store.get(key) != nullptr) {
      Written nothing;
      done = may_patch() && patch(key, nothing).ok();
    }
    at = done ? written_.erase(at) : std::next(at);
  }
}

bool StatusWriter::may_patch() {
  const bool may = options_.may_write() && budget_.take();
  unfinished_ |= !may;
  return may;
}

// Ok also for a removed object.
Status StatusWriter::patch(const ObjectKey& key, Written& wanted) {
  json::array conditions;
  for (const Condition& condition : wanted.conditions) {
    json::object out{{"type", condition.type},
                     {"status", condition.status},
                     {"reason", condition.reason},
                     {"message", condition.message},
                     {"lastTransitionTime", wanted.since[condition.type]}};
    if (wanted.generation != 0) out["observedGeneration"] = wanted.generation;
    conditions.push_back(std::move(out));
  }
  const Resource resource = resource_of(*spec::find_kind(options_.kinds, key.group_kind()));
  const json::object body{{"apiVersion", resource.api_version()},
                          {"kind", resource.kind},
                          {"metadata", {{"name", key.name}, {"namespace", key.ns}}},
                          {"status", {{"conditions", std::move(conditions)}}}};
  // Only these two conditions of the status are ours (or none any more). Applied with force, since
  // no other writer may set them. The spec is not in the patch, so no version of the object
  // conflicts.
  auto patched = api_.patch(resource, key.ns, key.name,
                            {.type = PatchType::kApply,
                             .body = json::serialize(body),
                             .subresource = "status",
                             .field_manager = kStatusManager + options_.mesh_name,
                             .force = true});
  if (!patched.ok()) {
    if (patched.error().code == ErrorCode::kNotFound) return {};
    unfinished_ = true;
    runtime_.log.debug("a status cannot be written",
                       {{"object", key.str()}, {"detail", patched.error().text()}});
    return patched.error();
  }
  wanted.version = metadata_of(*patched).version;
  runtime_.metrics.add(kStatusWritten, {{"kind", key.kind}}, 1);
  return {};
}

}  // namespace osm::inline v1::kubernetes
