#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/base64.hpp"
#include "base/catch_up.hpp"
#include "base/json.hpp"
#include "base/may_wait.hpp"
#include "base/outage.hpp"
#include "base/strand.hpp"
#include "etcd/gateway.hpp"
#include "etcd/object_list.hpp"
#include "etcd/object_table.hpp"
#include "etcd/object_watch.hpp"
#include "osm/notifier.hpp"
#include "osm/spec/etcd_store.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;
constexpr Counter kEtcdWatchLists{"osm_etcd_watch_lists_total",
                                  "Complete lists of the objects in etcd"};
constexpr Counter kEtcdWatchRestarts{
    "osm_etcd_watch_restarts_total", "Watches of etcd that ended, by reason", {"reason"}};
constexpr Gauge kEtcdObjects{"osm_etcd_objects", "Keys of objects held"};
constexpr Gauge kEtcdWatchStaleness{"osm_etcd_watch_staleness_seconds",
                                    "Seconds since the watch was lost; 0 while one is open"};

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Backoff kBackoff{milliseconds(200), seconds(4)};
constexpr seconds kProbeEvery{5};  // between two linearizable reads at the watched endpoint

class EtcdStore final : public ObjectStore {
 public:
  EtcdStore(const ObjectStoreOptions& options, std::unique_ptr<Gateway> gateway)
      : runtime_(options.runtime),
        gateway_(std::move(gateway)),
        name_(gateway_->name_of(options.etcd.key + "/objects/")),
        table_(ObjectKeys(options.etcd.key), options.kinds),
        probe_(R"({"key":")" + base64(table_.keys().begin()) + R"("})"),
        strand_(runtime_.blocking) {
    strand_.post([this] { read_list(); });
  }

  ~EtcdStore() override {
    strand_.stop();
    watch_.reset();
  }

  std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const override {
    return table_.list(kind);
  }
  std::shared_ptr<const Object> get(const ObjectKey& key) const override { return table_.get(key); }
  bool has_synced() const override { return table_.has_synced(); }

  // One linearizable read says which revision the watch must have told of. Nothing is listed.
  bool catch_up(const ObjectKey& key, milliseconds timeout) override {
    require_may_wait(strand_, "ObjectStore::catch_up");
    const auto path = table_.keys().key_of(key);
    if (!path) return true;  // there is no such object
    Sought sought{.key = *path};
    const Status read = gateway_->post(
        "kv/range", R"({"key":")" + base64(*path) + R"(","keys_only":true})",
        [&](const json::object& answer) -> Status {
          const json::array& pairs = list_at(answer, "kvs");
          sought.revision = pairs.empty() ? 0 : revision_at(pairs.front(), "mod_revision");
          sought.as_of = revision_at(map_at(answer, "header"), "revision");
          return {};
        });
    if (!read.ok()) return false;
    return wait_for_catch_up(strand_, timeout, [this, sought](const CatchUpCaller& caller) {
      waiting_.add(caller, [this, sought] { return has_seen(sought); });
      waiting_.settle(true);
    });
  }

  std::vector<Problem> list_problems() const override {
    std::vector<Problem> problems = table_.problems();
    if (auto problem = outage_.problem()) problems.insert(problems.begin(), *std::move(problem));
    return problems;
  }

  Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) override {
    return notifier_.subscribe(std::move(on_change));
  }

 private:
  // A key as etcd had it at a call of catch_up().
  struct Sought {
    std::string key;
    std::int64_t revision = 0;  // of the key; 0: it is not there
    std::int64_t as_of = 0;     // etcd's, at that time
  };

  // Everything below runs on the strand.

  void read_list() {
    watch_.reset();
    auto list = list_objects(*gateway_, table_.keys());
    if (!list.ok()) return fail(list.error());
    table_.replace(list->pairs);
    revision_ = list->revision;
    unopened_ = 0;
    endpoint_ = gateway_->answered();
    runtime_.metrics.add(kEtcdWatchLists, {}, 1);
    tell();
    open_watch();
  }

  void open_watch() {
    opened_ = false;
    auto watch = ObjectWatch::open({.gateway = *gateway_,
                                    .keys = table_.keys(),
                                    .executor = strand_,
                                    .endpoint = endpoint_,
                                    .start_revision = revision_ + 1,
                                    .on_answer = [this](const auto& answer) { take(answer); },
                                    .on_end = [this](const auto& status) { on_end(status); }});
    if (!watch.ok()) return on_end(watch.error());
    watch_ = *std::move(watch);
    timer_ = strand_.post_after(kProbeEvery, [this] { probe(); });
  }

  void take(const WatchAnswer& answer) {
    if (answer.compact_revision > 0) return list_anew("compacted");
    if (answer.canceled) {
      gateway_->forget_token();  // etcd cancels a watch whose token has ended
      return on_end(Error{ErrorCode::kUnavailable,
                          answer.reason.empty() ? "etcd ended the watch" : answer.reason});
    }
    if (answer.created) on_opened();
    for (const WatchEvent& event : answer.events) {
      if (event.deleted)
        table_.remove(event.pair);
      else
        table_.put(event.pair);
    }
    // A revision is complete with the last fragment.
    if (!answer.fragment && !answer.events.empty())
      revision_ = std::max(revision_, answer.events.back().pair.revision);
    if (answer.is_progress()) revision_ = std::max(revision_, answer.revision);
    tell();
  }

  void on_opened() {
    opened_ = true;
    unopened_ = 0;
    outage_.end();
  }

  void on_end(const Status& status) {
    const Error error =
        status.ok() ? Error{ErrorCode::kUnavailable, "etcd ended the watch"} : status.error();
    runtime_.metrics.add(kEtcdWatchRestarts, {{"reason", "broken"}}, 1);
    const std::string url = gateway_->url_of(endpoint_);
    endpoint_ = (endpoint_ + 1) % gateway_->count();
    fail(error.with_context(url));
  }

  // The store may be another one after it was away: one that was restored from a backup. So a watch
  // that no endpoint opened is not resumed.
  void fail(const Error& error) {
    watch_.reset();
    opened_ = false;
    outage_.fail(error.code,
                 {ErrorCode::kUnavailable, {}, name_, 0, "", cause_of_outage(error, has_synced())});
    const bool resume = revision_ > 0 && unopened_++ < gateway_->count() &&
                        error.code != ErrorCode::kTooLarge &&
                        error.code != ErrorCode::kInvalidSyntax;
    // The other endpoints are asked at once: their members are well if one has gone.
    const auto delay = resume && failures_ == 0 ? std::chrono::nanoseconds(0)
                                                : kBackoff.delay(failures_ + 1, runtime_.rng);
    ++failures_;
    tell();
    timer_ = strand_.post_after(delay, [this, resume] { resume ? open_watch() : read_list(); });
  }

  void list_anew(std::string_view reason) {
    runtime_.metrics.add(kEtcdWatchRestarts, {{"reason", reason}}, 1);
    revision_ = 0;
    read_list();
  }

  // A member that lags, or is cut off from the others, does not answer in time.
  void probe() {
    if (!opened_) return on_end(Error{ErrorCode::kDeadlineExceeded, "the watch does not begin"});
    std::int64_t revision = 0;
    const Status read =
        gateway_->ask(endpoint_, {"kv/range", probe_}, [&](const json::object& answer) {
          revision = revision_at(map_at(answer, "header"), "revision");
          return Status();
        });
    if (!read.ok()) return on_end(read.error());
    if (revision < revision_) return list_anew("restored");
    failures_ = 0;
    timer_ = strand_.post_after(kProbeEvery, [this] { probe(); });
  }

  void tell() {
    const ObjectTable::Changes changes = table_.take_changes();
    const bool news = outage_.take_news() || changes.news;
    if (!changes.keys.empty() || news) notifier_.notify(changes.keys);
    runtime_.metrics.set(kEtcdObjects, {}, table_.size());
    runtime_.metrics.set(kEtcdWatchStaleness, {}, outage_.lasted());
    waiting_.settle(true);
  }

  bool has_seen(const Sought& sought) const {
    const std::int64_t known = table_.revision_of(sought.key);
    if (sought.revision == 0) return known == 0 || known > sought.as_of;
    return known == sought.revision || (opened_ && revision_ >= sought.revision);
  }

  const Runtime runtime_;
  const std::unique_ptr<Gateway> gateway_;
  const std::string name_;
  ObjectTable table_;
  const std::string probe_;

  // On the strand.
  Outage<Problem> outage_{runtime_.clock, [this](const Problem* began) {
                            if (began == nullptr)
                              runtime_.log.info("the mesh's objects in etcd are read again");
                            else
                              runtime_.log.warning("the mesh's objects in etcd cannot be read",
                                                   {{"cause", began->text()}});
                          }};
  std::int64_t revision_ = 0;  // everything up to it is known; 0: nothing
  std::size_t endpoint_ = 0;   // that is watched
  bool opened_ = false;        // the watch began
  std::size_t unopened_ = 0;   // endpoints that did not open it since it last began
  unsigned failures_ = 0;      // in a row
  CatchUpWaiters waiting_;
  std::unique_ptr<ObjectWatch> watch_;

  Notifier<const std::vector<ObjectKey>&> notifier_;
  Strand strand_;
  Subscription timer_;  // of the next attempt, or of the next probe
};

}  // namespace

Result<std::unique_ptr<ObjectStore>> make_object_store(const ObjectStoreOptions& options) {
  OSM_TRY(auto gateway, Gateway::open(options.etcd));
  return std::unique_ptr<ObjectStore>(std::make_unique<EtcdStore>(options, std::move(gateway)));
}

}  // namespace osm::inline v1::etcd
