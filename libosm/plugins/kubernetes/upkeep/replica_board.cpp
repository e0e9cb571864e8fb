#include "kubernetes/upkeep/replica_board.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ranges>
#include <utility>

#include "base/board_text.hpp"
#include "base/digest.hpp"
#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/shared_metrics.hpp"
#include "base/times.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kBoardManager = "osm-replica";
constexpr const char* kReplicaComponent = "replica";
constexpr std::string_view kTopicPrefix = "replica.openservicemesh.io/";
constexpr const char* kTopicsAnnotation = "openservicemesh.io/replica-topics";
constexpr std::string_view kNamePrefix = "osm-replica-";
constexpr std::string_view kTextsPrefix = "osm-texts-";
constexpr std::size_t kMaxName = 253;
constexpr std::chrono::seconds kBoardSpacing{1};  // between two writes
constexpr std::chrono::seconds kDuration{15};     // a Lease that stands still so long has expired
constexpr std::chrono::seconds kRenew{5};         // less than a third of it
constexpr std::chrono::seconds kLook{2};          // between two judgements of who is gone
constexpr std::chrono::minutes kCollect{5};  // a Lease is deleted when it has stood still so long

bool is_lower_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// The object name for a replica: characters that an object name cannot have are dropped, and a
// digest keeps two names distinct.
std::string lease_name(std::string_view prefix, const std::string& replica) {
  std::string clean = replica;
  for (char& c : clean)
    if (!is_lower_alnum(c)) c = '-';
  const std::size_t room = kMaxName - prefix.size();
  if (clean != replica || clean.size() > room || clean.ends_with('-')) {
    const std::string digest = digest_of(replica).hex().substr(0, 16);
    clean = clean.substr(0, room - digest.size() - 1) + '-' + digest;
  }
  return std::string(prefix) + clean;
}

bool includes(const std::set<std::string>& takes_part, const std::string& topic) {
  return takes_part.empty() || takes_part.contains(topic);
}

}  // namespace

LeaseBoard::LeaseBoard(const ReplicaBoardOptions& options)
    : api_(options.cluster.api()),
      runtime_(options.runtime),
      options_(options),
      name_(lease_name(kNamePrefix, options_.replica)),
      texts_name_(lease_name(kTextsPrefix, options_.replica)),
      begun_(runtime_.clock.steady_now()),
      strand_(runtime_.blocking),
      looks_(strand_, runtime_.rng, {.turn = [this] { return look(); }}),
      writes_(
          strand_, runtime_.rng,
          {.turn = [this] { return write(); },
           .collect = [this] { return tried_at_ + kBoardSpacing - runtime_.clock.steady_now(); }}),
      informer_({.api = api_,
                 .executor = strand_,
                 .runtime = runtime_,
                 .resource = kLeases,
                 .ns = options_.osm_namespace,
                 .label_selector = mesh_selector(options_.mesh_name, kReplicaComponent),
                 .on_change = [this](const auto& keys) { on_leases(keys); }}) {
  if (options_.topics.empty()) lease_.emplace(options_);
  strand_.post([this] { informer_.start(); });
  looks_.wake();
}

LeaseBoard::~LeaseBoard() {
  stop();
  // If this fails, the Leases expire by themselves.
  if (!written_at_) return;
  for (const std::string& name : {name_, texts_name_})
    static_cast<void>(api_.remove(kLeases, options_.osm_namespace, name));
}

void LeaseBoard::stop() {
  if (lease_) lease_->stop();
  strand_.stop();
}

Status LeaseBoard::publish(const std::string& topic, std::string text) {
  if (!includes(options_.topics, topic))
    return Error{ErrorCode::kInvalidArgument,
                 "this replica does not take part in '" + topic +
                     "', so nobody would read it: name it in ReplicaBoardOptions.topics"};
  {
    std::lock_guard lock(mutex_);
    OSM_TRY(const bool differs, set_board_text(ours_, topic, std::move(text)));
    if (!differs) return {};
    unwritten_ = true;
  }
  strand_.post([this] { changed_.notify(); });
  writes_.wake();
  return {};
}

Result<std::map<std::string, std::string>> LeaseBoard::read(const std::string& topic) const {
  const SteadyTime now = runtime_.clock.steady_now();
  std::lock_guard lock(mutex_);
  for (const auto& time : {heard_at_, written_at_})
    if (!time || now - *time >= kDuration)
      return Error{ErrorCode::kUnavailable,
                   "it is not known which replicas of the control plane live: the API server has "
                   "not taken, or not told of, their Leases in " +
                       options_.osm_namespace + " lately"};
  std::map<std::string, std::string> all;
  if (includes(options_.topics, topic)) all.emplace(options_.replica, value_in(ours_, topic));
  for (const auto& [name, lease] : leases_) {
    if (name == name_ || !includes(lease.takes_part, topic) || !lives(name, lease, now)) continue;
    const Texts* texts = find_in(texts_, lease_name(kTextsPrefix, lease.replica));
    all.emplace(lease.replica, texts ? value_in(texts->topics, topic) : std::string());
  }
  return all;
}

// The watch told of the write that began at `heard_at_`.
std::optional<SteadyTime> LeaseBoard::confirmed_at() const {
  std::lock_guard lock(mutex_);
  return heard_at_.value_or(begun_);
}

Subscription LeaseBoard::subscribe(std::function<void()> on_change) {
  return changed_.subscribe(std::move(on_change));
}

Subscription LeaseBoard::stand(std::function<void()> on_begin) {
  return lease_ ? lease_->stand(std::move(on_begin)) : Subscription();
}

Pause LeaseBoard::look() {
  const SteadyTime now = runtime_.clock.steady_now();
  bool due = false;
  bool deaf = false;
  {
    std::lock_guard lock(mutex_);
    due = unwritten_ || !written_at_ || now - *written_at_ >= kRenew;
    deaf = written_at_ && (!heard_at_ || *written_at_ - *heard_at_ >= kRenew);
  }
  if (due) writes_.wake();
  // After the write, which waits for no deletion of others' Leases.
  strand_.post([this, deaf] {
    // The watch should have told of our own Lease: it does not work.
    if (deaf) informer_.refresh([](bool) {});
    judge();
  });
  return {.length = kLook, .jitter = true};
}

Pause LeaseBoard::write() {
  const Status written = write_due();
  if (writes_.first_failure(written))
    runtime_.log.warning(
        "this replica cannot tell the others that it lives",
        {{"lease", options_.osm_namespace + '/' + name_}, {"detail", written.error().text()}});
  return {};
}

Status LeaseBoard::write_due() {
  tried_at_ = runtime_.clock.steady_now();
  OSM_TRY(write_texts());
  {
    std::lock_guard lock(mutex_);
    if (written_at_ && tried_at_ - *written_at_ < kRenew) return {};
  }
  return renew(tried_at_);
}

Status LeaseBoard::write_texts() {
  json::object annotations;
  {
    std::lock_guard lock(mutex_);
    if (!std::exchange(unwritten_, false)) return {};
    for (const auto& [topic, text] : ours_) annotations[std::string(kTopicPrefix) + topic] = text;
  }
  const Status written =
      apply(texts_name_, std::move(annotations), {{"holderIdentity", options_.replica}});
  std::lock_guard lock(mutex_);
  unwritten_ |= !written.ok();
  return written;
}

Status LeaseBoard::renew(SteadyTime asked) {
  last_write_ = {rfc3339(runtime_.clock.wall_now(), 6), asked};
  json::object annotations;
  if (!options_.topics.empty())
    annotations[kTopicsAnnotation] = fmt::format("{}", fmt::join(options_.topics, ","));
  OSM_TRY(apply(name_, std::move(annotations),
                {{"holderIdentity", options_.replica},
                 {"leaseDurationSeconds", kDuration.count()},
                 {"renewTime", last_write_.first}}));
  std::lock_guard lock(mutex_);
  written_at_ = asked;
  return {};
}

// Creates a Lease, or replaces it, whatever others changed.
Status LeaseBoard::apply(const std::string& name, json::object annotations, json::object spec) {
  json::object lease = new_object(kLeases, options_.osm_namespace, name,
                                  component_labels(options_.mesh_name, kReplicaComponent));
  lease["metadata"].as_object()["annotations"] = std::move(annotations);
  lease["spec"] = std::move(spec);
  runtime_.metrics.add(kReplicaBoardWrites, {}, 1);
  OSM_TRY(api_.patch(kLeases, options_.osm_namespace, name,
                     {.type = PatchType::kApply,
                      .body = json::serialize(lease),
                      .field_manager = kBoardManager,
                      .force = true}));
  return {};
}

void LeaseBoard::on_leases(const std::vector<ObjectKey>& keys) {
  const SteadyTime now = runtime_.clock.steady_now();
  bool changed = false;
  bool spoilt = false;
  {
    std::lock_guard lock(mutex_);
    for (const ObjectKey& key : keys)
      changed |= key.name.starts_with(kTextsPrefix) ? take_texts(key, now) : take_renewed(key, now);
    // Somebody changed or deleted our texts, or restored the cluster from a backup.
    const Texts* told = find_in(texts_, texts_name_);
    spoilt = !unwritten_ && (!told || told->topics != ours_);
    unwritten_ |= spoilt;
  }
  if (spoilt) writes_.wake();
  if (changed) changed_.notify();
}

// Result: true if another text or replica is read now. The caller holds the mutex.
bool LeaseBoard::take_renewed(const ObjectKey& key, SteadyTime now) {
  const auto object = informer_.objects().get(key.ns, key.name);
  if (!object) return leases_.erase(key.name) > 0;
  Seen seen = seen_of(*object, now);
  bool changed = false;
  if (key.name == name_ && seen.renewed == last_write_.first) {
    changed = !heard_at_;
    heard_at_ = last_write_.second;
  }
  const Seen* before = find_in(leases_, key.name);
  changed |= !before || !before->alive || before->takes_part != seen.takes_part;
  leases_.insert_or_assign(key.name, std::move(seen));
  return changed;
}

// As take_renewed().
bool LeaseBoard::take_texts(const ObjectKey& key, SteadyTime now) {
  const auto object = informer_.objects().get(key.ns, key.name);
  Texts next{.topics = {},
             .since = now,
             .uid = object ? text_at(map_at(*object->document, "metadata"), "uid") : ""};
  if (object)
    for (const auto& [name, text] : object->annotations)
      if (name.starts_with(kTopicPrefix))
        next.topics.emplace(name.substr(kTopicPrefix.size()), text);
  const Texts* before = find_in(texts_, key.name);
  const bool differs = before ? before->topics != next.topics : !next.topics.empty();
  if (object) {
    texts_.insert_or_assign(key.name, std::move(next));
  } else {
    texts_.erase(key.name);
  }
  return differs && std::ranges::any_of(leases_, [&](const auto& lease) {
           return lease.second.alive && lease_name(kTextsPrefix, lease.second.replica) == key.name;
         });
}

// Time has passed: some replicas may be gone.
void LeaseBoard::judge() {
  const SteadyTime now = runtime_.clock.steady_now();
  bool changed = false;
  std::size_t living = 0;
  std::vector<std::pair<std::string, std::string>> dead;  // for long: names and UIDs
  std::set<std::string> speaking;                         // names of Leases with texts
  {
    std::lock_guard lock(mutex_);
    for (auto& [name, lease] : leases_) {
      const bool alive = lives(name, lease, now);
      changed |= std::exchange(lease.alive, alive) != alive;
      living += alive && lease.takes_part.empty();
      if (!alive && now - lease.since >= kCollect) dead.emplace_back(name, lease.uid);
      speaking.insert(lease_name(kTextsPrefix, lease.replica));
    }
    for (const auto& [name, texts] : texts_)
      if (name != texts_name_ && !speaking.contains(name) && now - texts.since >= kCollect)
        dead.emplace_back(name, texts.uid);
  }
  runtime_.metrics.set(kReplicas, {}, living);
  for (const auto& [name, uid] : dead) collect(name, uid);
  if (changed) changed_.notify();
}

LeaseBoard::Seen LeaseBoard::seen_of(const Object& object, SteadyTime now) {
  const json::value& lease = *object.document;
  const json::object& spec = map_at(lease, "spec");
  Seen seen{.replica = text_at(spec, "holderIdentity"),
            .renewed = text_at(spec, "renewTime"),
            .since = now,
            .duration = std::chrono::seconds(number_at(spec, "leaseDurationSeconds")),
            .takes_part = {},
            .uid = text_at(map_at(lease, "metadata"), "uid")};
  for (const auto& [key, value] : object.annotations)
    if (key == kTopicsAnnotation)
      for (const auto topic : std::views::split(value, ','))
        seen.takes_part.emplace(topic.begin(), topic.end());
  return seen;
}

bool LeaseBoard::lives(const std::string& name, const Seen& seen, SteadyTime now) const {
  return name == name_ || now - seen.since < std::max(seen.duration, kDuration);
}

// Deletes the Lease of a replica that died without leaving. The version is named, so that a replica
// that only slept stays.
void LeaseBoard::collect(const std::string& name, const std::string& uid) {
  const std::string version = informer_.objects().find(options_.osm_namespace, name).version;
  const Status removed =
      api_.remove(kLeases, options_.osm_namespace, name, {.uid = uid, .resource_version = version});
  if (removed.ok())
    runtime_.log.info("the Lease of a replica that is gone is collected",
                      {{"lease", options_.osm_namespace + '/' + name}});
}

Result<std::unique_ptr<ReplicaBoard>> make_replica_board(const ReplicaBoardOptions& options) {
  if (options.replica.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "ReplicaBoardOptions.replica: required: the name that no other replica has"};
  return std::unique_ptr<ReplicaBoard>(std::make_unique<LeaseBoard>(options));
}

}  // namespace osm::inline v1::kubernetes
