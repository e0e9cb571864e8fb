// The replicas' board and their leader in etcd. A replica's key holds its texts as one JSON object.
// The key lives as long as the replica's lease; the replica whose key was created first leads.
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
#include "base/strand.hpp"
#include "etcd/gateway.hpp"
#include "etcd/watch_answers.hpp"
#include "osm/certificate/etcd_replicas.hpp"
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

class EtcdReplicas final : public Replicas {
 public:
  EtcdReplicas(const ReplicasOptions& options, std::unique_ptr<Gateway> gateway)
      : runtime_(options.runtime),
        replica_(options.replica),
        has_objects_(options.has_objects),
        below_(options.etcd.key + "/replicas/"),
        name_("replicas of " + gateway->name_of(options.etcd.key)),
        gateway_(std::move(gateway)),
        strand_(runtime_.blocking) {}

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
      OSM_TRY(check_board_text(ours_, topic, text));
      const auto [at, fresh] = ours_.try_emplace(topic);
      if (!fresh && at->second == text) return {};
      at->second = std::move(text);
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
    const auto said = [&](const Topics& topics) {
      const std::string* text = find_in(topics, topic);
      return text ? *text : std::string();
    };
    std::map<std::string, std::string> all{{replica_, said(ours_)}};
    for (const auto& [replica, seen] : seen_) all.emplace(replica, said(seen.topics));
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
    return oldest_ && runtime_.clock.steady_now() < known_until_;
  }

 private:
  using Topics = std::map<std::string, std::string>;
  // A replica's key.
  struct Seen {
    std::int64_t created = 0;
    std::int64_t changed = 0;
    Topics topics{};  // not of our own key

    friend bool operator==(const Seen&, const Seen&) = default;
  };

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
    if (const bool leading = leads(); std::exchange(led_, leading) != leading)
      runtime_.log.info(leading ? "this replica takes the steps of root rotations"
                                : "this replica does not take the steps of root rotations");
    runtime_.metrics.set(kLeaseHeld, {}, led_ ? 1 : 0);
    timer_ = strand_.post_after(kTurn, [this] { end_turn(take_turn()); });
  }

  Status take_turn() {
    OSM_TRY(renew());
    OSM_TRY(write());
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
    const Status written = ask("kv/put",
                               {{"key", base64(below_ + replica_)},
                                {"value", base64(json::serialize(topics))},
                                {"lease", lease_}},
                               ignore);
    if (written.ok()) return {};
    if (written.error().code == ErrorCode::kNotFound) {
      lose_lease();
    } else {
      const std::lock_guard lock(mutex_);
      unwritten_ = true;
    }
    return written;
  }

  Status look() {
    std::map<std::string, Seen> present;
    OSM_TRY(list(present));
    for (auto& [replica, seen] : present) {
      if (replica == replica_) continue;
      const Seen* before = find_in(seen_, replica);  // written by this strand only
      if (before && before->changed == seen.changed)
        seen.topics = before->topics;
      else
        OSM_TRY(read_topics(replica, seen.topics));
    }
    runtime_.metrics.set(kReplicas, {}, present.size());
    bool changed = false;
    {
      const std::lock_guard lock(mutex_);
      changed = present != seen_;
      seen_ = std::move(present);
      const Seen* mine = find_in(seen_, replica_);
      oldest_ = mine && std::ranges::none_of(seen_, [&](const auto& entry) {
                  return entry.second.created < mine->created;
                });
      if (mine) {
        known_until_ = renewed_at_ + kSure;
        confirmed_ = renewed_at_;
      } else
        unwritten_ = true;  // somebody deleted the key
    }
    if (changed) changed_.notify();
    return {};
  }

  // All keys, without their values.
  Status list(std::map<std::string, Seen>& present) const {
    std::string end = below_;  // the first text that does not begin so
    ++end.back();
    return ask("kv/range",
               {{"key", base64(below_)}, {"range_end", base64(end)}, {"keys_only", true}},
               [&](const json::object& answer) -> Status {
                 for (const json::value& pair : list_at(answer, "kvs")) {
                   const auto key = from_base64(text_at(pair, "key"));
                   if (!key || !key->starts_with(below_)) return not_etcd();
                   present[key->substr(below_.size())] = {revision_at(pair, "create_revision"),
                                                          revision_at(pair, "mod_revision")};
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
  const std::string below_;  // the replicas' keys begin so
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
  Notifier<> changed_;
  Strand strand_;
  Subscription timer_;
};

}  // namespace

Result<std::unique_ptr<Replicas>> make_replicas(const ReplicasOptions& options) {
  if (options.replica.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "ReplicasOptions.replica: required: the name that no other replica has"};
  OSM_TRY(auto gateway, Gateway::open(options.etcd));
  auto replicas = std::make_unique<EtcdReplicas>(options, std::move(gateway));
  OSM_TRY(replicas->join());
  return std::unique_ptr<Replicas>(std::move(replicas));
}

}  // namespace osm::inline v1::etcd
