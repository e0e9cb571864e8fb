#include "kubernetes/upkeep/replica_board.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/board_text.hpp"
#include "base/digest.hpp"
#include "kubernetes/client/blocking_list.hpp"
#include "kubernetes/client/object_json.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/upkeep.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kBoardManager = "osm-replica";
constexpr const char* kComponentLabel = "app.kubernetes.io/component";
constexpr const char* kComponent = "replica";
constexpr std::string_view kTopicPrefix = "replica.openservicemesh.io/";
constexpr const char* kTopicsAnnotation = "openservicemesh.io/replica-topics";
constexpr std::string_view kNamePrefix = "osm-replica-";
constexpr std::size_t kMaxName = 253;
constexpr std::chrono::seconds kBoardSpacing{1};  // from one writing to the next

bool is_lower_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// A replica's name as an object's: what a host name may have and an object may not is left out, and
// a digest keeps two names apart.
std::string lease_name(const std::string& replica) {
  std::string clean = replica;
  for (char& c : clean)
    if (!is_lower_alnum(c)) c = '-';
  const std::size_t room = kMaxName - kNamePrefix.size();
  if (clean != replica || clean.size() > room || clean.ends_with('-')) {
    const std::string digest = digest_of(replica).hex().substr(0, 16);
    clean = clean.substr(0, room - digest.size() - 1) + '-' + digest;
  }
  return std::string(kNamePrefix) + clean;
}

// "roots,status"
std::string joined(const std::set<std::string>& topics) {
  std::string text;
  for (const std::string& topic : topics) text += (text.empty() ? "" : ",") + topic;
  return text;
}

std::set<std::string> split(std::string_view text) {
  std::set<std::string> topics;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    topics.emplace(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return topics;
}

bool includes(const std::set<std::string>& takes_part, const std::string& topic) {
  return takes_part.empty() || takes_part.contains(topic);
}

}  // namespace

LeaseBoard::LeaseBoard(const Surroundings& surroundings, LeaseBoardOptions options)
    : with_(surroundings),
      options_(std::move(options)),
      name_(lease_name(options_.replica)),
      selector_(std::string(kNameLabel) + '=' + kNameLabelValue + ',' + kInstanceLabel + '=' +
                options_.mesh_name + ',' + kComponentLabel + '=' + kComponent),
      strand_(with_.blocking) {
  strand_.post([this] { tick(); });
}

void LeaseBoard::stop() {
  strand_.stop();
  tick_timer_.reset();
  write_timer_.reset();
}

LeaseBoard::~LeaseBoard() {
  stop();
  // When it fails, the Lease runs out by itself.
  if (written_at_) static_cast<void>(with_.api.remove(kLeases, options_.ns, name_));
}

Status LeaseBoard::publish(const std::string& topic, std::string text) {
  if (!includes(options_.topics, topic))
    return Error{ErrorCode::kInvalidArgument,
                 "this replica does not take part in '" + topic +
                     "', so nobody would read it: name it in ReplicaBoardOptions.topics"};
  {
    std::lock_guard lock(mutex_);
    if (Status fits = check_board_text(ours_, topic, text); !fits.ok()) return fits;
    const auto [at, fresh] = ours_.try_emplace(topic);
    if (!fresh && at->second == text) return {};
    at->second = std::move(text);
    unwritten_ = true;
  }
  strand_.post([this] {
    changed_.notify();
    write_soon();
  });
  return {};
}

Result<std::map<std::string, std::string>> LeaseBoard::read(const std::string& topic) const {
  const SteadyTime now = with_.clock.steady_now();
  std::lock_guard lock(mutex_);
  for (const auto& time : {looked_at_, written_at_})
    if (!time || now - *time >= options_.duration)
      return Error{ErrorCode::kUnavailable,
                   "it is not known which replicas of the control plane live: the API server has "
                   "not taken, or not listed, their Leases in " +
                       options_.ns + " lately"};
  const auto said = [&](const Topics& topics) {
    const auto at = topics.find(topic);
    return at == topics.end() ? std::string() : at->second;
  };
  std::map<std::string, std::string> all;
  if (includes(options_.topics, topic)) all.emplace(options_.replica, said(ours_));
  for (const auto& [name, lease] : leases_)
    if (name != name_ && includes(lease.takes_part, topic) && lives(name, lease, now))
      all.emplace(lease.replica, said(lease.topics));
  return all;
}

Subscription LeaseBoard::subscribe(std::function<void()> on_change) {
  return changed_.subscribe(std::move(on_change));
}

void LeaseBoard::tick() {
  const SteadyTime now = with_.clock.steady_now();
  bool due = false;
  {
    std::lock_guard lock(mutex_);
    due = unwritten_ || !written_at_ || now - *written_at_ >= options_.renew;
  }
  if (due) write_soon();
  look();
  tick_timer_ = strand_.post_after(jittered(with_.rng, options_.look), [this] { tick(); });
}

// At once, or when the last writing is long enough ago.
void LeaseBoard::write_soon() {
  if (write_waits_) return;
  const SteadyTime now = with_.clock.steady_now();
  if (!tried_at_ || now - *tried_at_ >= kBoardSpacing) return write();
  write_waits_ = true;
  write_timer_ = strand_.post_after(*tried_at_ + kBoardSpacing - now, [this] {
    write_waits_ = false;
    write();
  });
}

// Creates it, or puts it in place of the last one, whoever may have changed or deleted that.
void LeaseBoard::write() {
  const SteadyTime asked = with_.clock.steady_now();
  tried_at_ = asked;
  json::object annotations;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [topic, text] : ours_) annotations[std::string(kTopicPrefix) + topic] = text;
    if (!options_.topics.empty()) annotations[kTopicsAnnotation] = joined(options_.topics);
    unwritten_ = false;
  }
  const json::object lease{{"apiVersion", kLeases.api_version()},
                           {"kind", kLeases.kind},
                           {"metadata",
                            {{"name", name_},
                             {"namespace", options_.ns},
                             {"labels",
                              {{kNameLabel, kNameLabelValue},
                               {kInstanceLabel, options_.mesh_name},
                               {kComponentLabel, kComponent}}},
                             {"annotations", std::move(annotations)}}},
                           {"spec",
                            {{"holderIdentity", options_.replica},
                             {"leaseDurationSeconds", options_.duration.count()},
                             {"renewTime", kubernetes_micro_time(with_.clock.wall_now())}}}};
  const auto written = with_.api.patch(kLeases, options_.ns, name_,
                                       {.type = PatchType::kApply,
                                        .body = json::serialize(lease),
                                        .field_manager = kBoardManager,
                                        .force = true});
  with_.metrics.add("osm_replica_board_writes_total", {}, 1);
  const bool failed = !written.ok();
  if (failed && !std::exchange(failing_, true))
    with_.log.warning("this replica cannot tell the others that it lives",
                      {{"lease", options_.ns + '/' + name_}, {"detail", written.error().text()}});
  std::lock_guard lock(mutex_);
  unwritten_ |= failed;
  if (failed) return;
  failing_ = false;
  written_at_ = asked;
}

void LeaseBoard::look() {
  const SteadyTime asked = with_.clock.steady_now();
  Leases present;
  ListRequest request{.resource = kLeases, .ns = options_.ns, .label_selector = selector_};
  do {
    auto page = list_page(with_.api, request);
    if (!page.ok()) return;
    const SteadyTime now = with_.clock.steady_now();
    for (const json::object& lease : page->items) look_at(lease, now, present);
    request.continue_token = std::move(page->continue_token);
  } while (!request.continue_token.empty());
  bool changed = present.size() != leases_.size();
  for (const auto& [name, lease] : present) {
    const auto before = leases_.find(name);
    changed |= before == leases_.end() || before->second.alive != lease.alive ||
               before->second.topics != lease.topics ||
               before->second.takes_part != lease.takes_part;
  }
  std::size_t living = 0;
  for (const auto& [name, lease] : present) living += lease.alive && lease.takes_part.empty();
  with_.metrics.set("osm_replicas", {}, static_cast<double>(living));
  collect(present);
  {
    std::lock_guard lock(mutex_);
    leases_ = std::move(present);
    changed |= !looked_at_;
    looked_at_ = asked;
  }
  if (changed) changed_.notify();
}

void LeaseBoard::look_at(const json::object& lease, SteadyTime now, Leases& present) const {
  const json::value& metadata = map_at(lease, "metadata");
  const json::value& spec = map_at(lease, "spec");
  const std::string name = text_at(metadata, "name");
  Seen seen{.replica = text_at(spec, "holderIdentity"),
            .version = text_at(metadata, "resourceVersion"),
            .since = now,
            .duration = std::chrono::seconds(number_at(spec, "leaseDurationSeconds")),
            .topics = {},
            .takes_part = split(text_at(map_at(metadata, "annotations"), kTopicsAnnotation)),
            .uid = text_at(metadata, "uid")};
  if (const auto before = leases_.find(name);
      before != leases_.end() && before->second.version == seen.version)
    seen.since = before->second.since;
  if (const auto* annotations = map_at(metadata, "annotations").if_object())
    for (const auto& [key, value] : *annotations)
      if (std::string_view(key).starts_with(kTopicPrefix) && value.is_string())
        seen.topics.emplace(std::string_view(key).substr(kTopicPrefix.size()), value.as_string());
  seen.alive = lives(name, seen, now);
  present.emplace(name, std::move(seen));
}

bool LeaseBoard::lives(const std::string& name, const Seen& seen, SteadyTime now) const {
  return name == name_ || now - seen.since < std::max(seen.duration, options_.duration);
}

// Of replicas that died without leaving. The version is said, so that one that only slept stays.
void LeaseBoard::collect(const Leases& leases) {
  const SteadyTime now = with_.clock.steady_now();
  for (const auto& [name, lease] : leases) {
    if (lease.alive || now - lease.since < options_.collect) continue;
    const Status removed = with_.api.remove(kLeases, options_.ns, name,
                                            {.uid = lease.uid, .resource_version = lease.version});
    if (removed.ok())
      with_.log.info("the Lease of a replica that is gone is collected",
                     {{"lease", options_.ns + '/' + name}});
  }
}

Result<std::unique_ptr<ReplicaBoard>> make_replica_board(const ReplicaBoardOptions& options) {
  if (options.replica.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "ReplicaBoardOptions.replica: required: the name that no other replica has"};
  return std::unique_ptr<ReplicaBoard>(std::make_unique<LeaseBoard>(
      Surroundings{options.cluster.api(), options.blocking, options.clock, options.rng, options.log,
                   options.metrics},
      LeaseBoardOptions{.ns = options.osm_namespace,
                        .mesh_name = options.mesh_name,
                        .replica = options.replica,
                        .topics = options.topics}));
}

}  // namespace osm::inline v1::kubernetes
