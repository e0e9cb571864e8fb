#include "etcd/replicas.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/base64.hpp"
#include "base/board_text.hpp"
#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/shared_metrics.hpp"
#include "base/stands.hpp"
#include "base/strand.hpp"
#include "etcd/gateway.hpp"
#include "etcd/watch_answers.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;
using std::chrono::seconds;

constexpr seconds kTurn{1};    // between two looks at the others, and two writes
constexpr seconds kRenew{5};   // between two renewals of the lease
constexpr seconds kSure{10};   // from a renewal on: the lease has not ended
constexpr seconds kLease{15};  // life of the lease

Status ignore(const json::object&) { return {}; }

// The replicas' board and their leader in etcd. A replica's key holds its texts as one JSON object.
// The key lives as long as the replica's lease. So does a second key, which it has while it stands
// to lead: the replica whose second key was created first leads.
class EtcdReplicas final : public ReplicaBoard {
 public:
  EtcdReplicas(const BackendOptions& options, std::unique_ptr<Gateway> gateway)
      : runtime_(options.board),
        replica_(options.replica),
        has_objects_(!options.objects_key.empty()),
        below_(options.etcd.key + "/replicas/"),
        standing_below_(options.etcd.key + "/replicas-standing/"),
        name_("replicas of " + gateway->name_of(options.etcd.key)),
        gateway_(std::move(gateway)),
        strand_(runtime_.blocking),
        stands_(
            strand_, [this] { return leads(); },
            [this] { strand_.post([this] { end_turn(take_turn()); }); }) {}

  ~EtcdReplicas() override {
    strand_.stop();
    // If this fails, the lease ends by itself. An etcd that is away is not waited for.
    if (!lease_.empty() && !failing_)
      static_cast<void>(ask("lease/revoke", {{"ID", lease_}}, ignore));
  }

  Status join() {
    OSM_TRY(take_turn());
    runtime_.log.info("this replica has joined the others", {{"replica", replica_}});
    strand_.post([this] { end_turn({}); });
    return {};
  }

  Status publish(const std::string& topic, std::string text) override {
    {
      const std::lock_guard lock(mutex_);
      OSM_TRY(const bool differs, set_board_text(ours_, topic, std::move(text)));
      if (!differs) return {};
      unwritten_ = true;
    }
    strand_.post([this] { changed_.notify(); });
    return {};
  }

  Result<std::map<std::string, std::string>> read(const std::string& topic) const override {
    const SteadyTime now = runtime_.clock.steady_now();
    const std::lock_guard lock(mutex_);
    if (now >= known_until_)
      return Error{ErrorCode::kUnavailable,
                   name_ +
                       ": it is not known which of them live, because etcd has not answered "
                       "lately; proxies are served, and no root rotation takes a step"};
    std::map<std::string, std::string> all{{replica_, value_in(ours_, topic)}};
    for (const auto& [replica, seen] : seen_) all.emplace(replica, value_in(seen.topics, topic));
    return all;
  }

  Subscription subscribe(std::function<void()> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

  std::optional<SteadyTime> confirmed_at() const override {
    if (!has_objects_) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return confirmed_;
  }

  bool leads() const override {
    const std::lock_guard lock(mutex_);
    return stands_.any() && oldest_ && runtime_.clock.steady_now() < known_until_;
  }

  Subscription stand(std::function<void()> on_begin) override {
    return stands_.add(std::move(on_begin));
  }

 private:
  using Topics = std::map<std::string, std::string>;
  // A replica's key.
  struct Seen {
    std::int64_t changed = 0;
    Topics topics{};  // not of our own key

    friend bool operator==(const Seen&, const Seen&) = default;
  };
  using Standing = std::map<std::string, std::int64_t>;  // by replica: its key's first revision
  // State of the key with which this replica stands.
  enum class Key { kNone, kComes, kThere, kGoes };  // two of them until etcd has confirmed it

  Status ask(std::string_view path, const json::object& body,
             const std::function<Status(json::object&)>& read) const {
    const Status asked = gateway_->post(path, json::serialize(body), read);
    return asked.ok() ? asked : Status(asked.error().with_context(name_));
  }

  void end_turn(const Status& taken) {
    if (failing_ == taken.ok()) {
      failing_ = !taken.ok();
      if (failing_)
        runtime_.log.warning("etcd does not tell which replicas live: no root rotation goes on",
                             {{"cause", taken.error().text()}});
      else
        runtime_.log.info("etcd tells again which replicas live");
    }
    const bool leading = leads();
    if (std::exchange(led_, leading) != leading)
      runtime_.log.info(leading ? "this replica takes the steps of root rotations"
                                : "this replica does not take the steps of root rotations");
    runtime_.metrics.set(kLeaseHeld, {}, led_ ? 1 : 0);
    if (!std::exchange(begun_, leading) && leading) stands_.begin();
    timer_ = strand_.post_after(kTurn, [this] { end_turn(take_turn()); });
  }

  Status take_turn() {
    OSM_TRY(renew());
    OSM_TRY(write());
    OSM_TRY(remove_standing());
    OSM_TRY(write_standing());
    return look();
  }

  Status renew() {
    const SteadyTime asked = runtime_.clock.steady_now();
    if (!lease_.empty() && asked - renewed_at_ < kRenew) return {};
    if (!lease_.empty()) {
      std::int64_t left = 0;
      OSM_TRY(ask("lease/keepalive", {{"ID", lease_}}, [&](const json::object& answer) {
        left = revision_at(map_at(answer, "result"), "TTL");
        return Status();
      }));
      if (left == 0) lose_lease();
    }
    if (lease_.empty())
      OSM_TRY(ask("lease/grant", {{"TTL", kLease.count()}}, [&](const json::object& answer) {
        lease_ = text_at(answer, "ID");
        return lease_.empty() ? Status(not_etcd()) : Status();
      }));
    renewed_at_ = asked;  // the answer is not older than the question
    return {};
  }

  // The key has gone with it, and another replica may lead.
  void lose_lease() {
    lease_.clear();
    standing_ = Key::kNone;
    begun_ = false;
    const std::lock_guard lock(mutex_);
    unwritten_ = true;
    known_until_ = {};
  }

  Status write() {
    json::object topics;
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(unwritten_, false)) return {};
      for (const auto& [topic, text] : ours_) topics[topic] = text;
    }
    runtime_.metrics.add(kReplicaBoardWrites, {}, 1);
    Status written = put(below_, json::serialize(topics));
    if (written.ok()) return {};
    const std::lock_guard lock(mutex_);
    unwritten_ = true;
    return written;
  }

  Status put(const std::string& below, const std::string& value) {
    Status written = ask(
        "kv/put", {{"key", base64(below + replica_)}, {"value", base64(value)}, {"lease", lease_}},
        ignore);
    if (!written.ok() && written.error().code == ErrorCode::kNotFound) lose_lease();
    return written;
  }

  // A deletion that etcd has not confirmed may come late. So it is repeated, and this replica does
  // not lead, until one is confirmed. One that comes even later takes the key of a replica that
  // stands again: it notices within a turn, and the record's version refuses a second step.
  Status remove_standing() {
    if (standing_ == Key::kNone || (stands_.any() && standing_ != Key::kGoes)) return {};
    standing_ = Key::kGoes;
    {
      const std::lock_guard lock(mutex_);
      oldest_ = false;
    }
    OSM_TRY(ask("kv/deleterange", {{"key", base64(standing_below_ + replica_)}}, ignore));
    standing_ = Key::kNone;
    return {};
  }

  // A put of a key that is there leaves its age.
  Status write_standing() {
    if (standing_ == Key::kThere || !stands_.any()) return {};
    standing_ = Key::kComes;
    OSM_TRY(put(standing_below_, ""));
    standing_ = Key::kThere;
    return {};
  }

  Status look() {
    std::map<std::string, Seen> present;
    Standing standing;
    OSM_TRY(list(present, standing));
    for (auto& [replica, seen] : present) {
      if (replica == replica_) continue;
      const Seen* before = find_in(seen_, replica);  // written by this strand only
      if (before && before->changed == seen.changed)
        seen.topics = before->topics;
      else
        OSM_TRY(read_topics(replica, seen.topics));
    }
    runtime_.metrics.set(kReplicas, {}, present.size());
    const std::int64_t* const ours = find_in(standing, replica_);
    if (!ours)
      standing_ = Key::kNone;
    else if (standing_ == Key::kNone)
      standing_ = Key::kThere;  // a put that came late
    bool changed = false;
    {
      const std::lock_guard lock(mutex_);
      changed = present != seen_;
      seen_ = std::move(present);
      oldest_ = ours && std::ranges::none_of(
                            standing, [&](const auto& entry) { return entry.second < *ours; });
      if (find_in(seen_, replica_)) {
        if (runtime_.clock.steady_now() >= known_until_) begun_ = false;  // it had stopped to lead
        known_until_ = renewed_at_ + kSure;
        confirmed_ = renewed_at_;
      } else
        unwritten_ = true;  // somebody deleted the key
    }
    if (changed) changed_.notify();
    return {};
  }

  // All keys, without their values. One question: "replicas-standing/" is sorted before
  // "replicas/".
  Status list(std::map<std::string, Seen>& present, Standing& standing) const {
    std::string end = below_;  // the first text that does not begin so
    ++end.back();
    return ask("kv/range",
               {{"key", base64(standing_below_)}, {"range_end", base64(end)}, {"keys_only", true}},
               [&](const json::object& answer) -> Status {
                 for (const json::value& pair : list_at(answer, "kvs")) {
                   const auto key = from_base64(text_at(pair, "key"));
                   if (key && key->starts_with(below_))
                     present[key->substr(below_.size())] = {revision_at(pair, "mod_revision")};
                   else if (key && key->starts_with(standing_below_))
                     standing[key->substr(standing_below_.size())] =
                         revision_at(pair, "create_revision");
                   else
                     return not_etcd();
                 }
                 return {};
               });
  }

  // The text of another version reads as empty.
  Status read_topics(const std::string& replica, Topics& topics) const {
    return ask("kv/range", {{"key", base64(below_ + replica)}},
               [&](const json::object& answer) -> Status {
                 const json::array& pairs = list_at(answer, "kvs");
                 if (pairs.empty()) return {};  // it has just left
                 const std::string text = from_base64(text_at(pairs.front(), "value")).value_or("");
                 const auto said = parse_json_object(text, "a replica's texts");
                 if (!said.ok()) return {};
                 for (const auto& [topic, value] : *said)
                   if (value.is_string()) topics[topic] = value.get_string();
                 return {};
               });
  }

  const Runtime runtime_;
  const std::string replica_;
  const bool has_objects_;
  const std::string below_;           // the replicas' keys begin so
  const std::string standing_below_;  // the keys of those that stand begin so
  const std::string name_;
  const std::unique_ptr<Gateway> gateway_;

  mutable std::mutex mutex_;  // guards the next six
  Topics ours_;
  bool unwritten_ = true;
  std::map<std::string, Seen> seen_;  // of all replicas
  bool oldest_ = false;
  SteadyTime known_until_{};  // our key exists until then, and seen_ is not older than a lease
  SteadyTime confirmed_{};    // our key was there after a renewal of the lease at that time

  // Used on the strand, and in join().
  std::string lease_;  // empty: there is none
  SteadyTime renewed_at_{};
  bool failing_ = false;
  bool led_ = false;
  bool begun_ = false;  // since the lease was lost, or this replica led last
  Key standing_ = Key::kNone;
  Notifier<> changed_;
  Strand strand_;
  Stands stands_;
  Subscription timer_;
};

}  // namespace

Result<std::unique_ptr<ReplicaBoard>> make_replicas(const BackendOptions& options) {
  if (options.replica.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "BackendOptions.replica: required: the name that no other replica has"};
  OSM_TRY(auto gateway, Gateway::open(options.etcd));
  auto replicas = std::make_unique<EtcdReplicas>(options, std::move(gateway));
  OSM_TRY(replicas->join());
  return std::unique_ptr<ReplicaBoard>(std::move(replicas));
}

}  // namespace osm::inline v1::etcd
