// Follows one resource of an API server: a list, page by page, then a watch from its version.
//
// - The first list may come from the server's cache (resourceVersion 0), so that a process that
//   starts costs etcd nothing. It may be behind, and the watch tells the rest. Every later list is
//   of the newest version: the informer never goes back behind what it has told.
// - A list replaces all known objects, an event changes one. `on_change` gets exactly the keys that
//   differ; changes that `reduce` drops are not reported.
// - A watch that ends is resumed at its last version. 410 leads to a new list; in the middle of a
//   paged list, to a list without pages, which cannot expire.
// - A watch that ends without an event or a bookmark leads to a new list: a server whose store was
//   restored from a backup does not know the version, and keeps such a watch open and silent. A
//   watch that broke within a minute, too early for a bookmark, is resumed.
// - A watch that cannot be opened, because the server is away, leads to a new list too. The server
//   may come back with a restored store that has passed the version: such a watch is not silent,
//   but the changes between the backup and the version are missing in it. A server that answers
//   lists and refuses watches is listed once.
// - A watch that is silent past its timeout is given up.
// - While the server is away, all objects stay. After a few seconds this is a problem.
// - A server that is back is noticed within 4 s (5 s if it dropped a connection: cluster.cpp).
// - A resource that the server does not have (404: its CRD is missing) counts as empty, and is
//   looked for again with a back-off. If the resource was there, it counts as empty after 10 s:
//   a server that starts may not know its CRDs yet.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/catch_up.hpp"
#include "base/outage.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/client/object_table.hpp"
#include "osm/object.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

struct InformerOptions {
  Api& api;            // these outlive the informer
  Executor& executor;  // a strand: one task at a time, in order
  Runtime runtime;
  std::string server{};  // "https://10.96.0.1:443": in the sources of objects and problems
  Resource resource;
  std::string ns{};
  std::string label_selector{};
  bool metadata_only = false;  // see reduce_to_metadata
  // Called with the changed keys; with none if only has_synced(), missing() or problem() changed.
  // Thread: of the executor. Must not destroy the informer.
  std::function<void(const std::vector<ObjectKey>& changed)> on_change;
  // Called with the keys whose status differs. Null: statuses are dropped, except of Pods. Thread:
  // as on_change.
  std::function<void(const std::vector<ObjectKey>& changed)> on_status{};
};

// An object as the server has it now: the answer to a GET.
struct Sighting {
  std::string ns;
  std::string name;
  std::string version;  // empty: there is none, or it is not in the informer's selection
};

class Informer {
 public:
  explicit Informer(InformerOptions options);
  // Must not run in a callback of this informer. Waits for running callbacks of `api`.
  ~Informer();
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  // Thread: any. Result: `key`, in the informer's namespace if it names none; nullopt if no object
  // of that key can ever be in objects().
  std::optional<ObjectKey> followed(ObjectKey key) const;
  const Resource& resource() const { return options_.resource; }
  // Thread: any. The answer to a GET of `key`; null: there is no such object.
  Sighting sighting_of(const ObjectKey& key, const boost::json::object* found) const;

  // Thread: any. has_synced: it has been listed once, or is missing.
  const ObjectTable& objects() const { return table_; }
  bool has_synced() const { return known_ != Known::kNothing; }
  bool missing() const { return known_ == Known::kMissing; }
  std::optional<Problem> problem() const { return outage_.problem(); }

  // On the executor:

  // Starts, and stops and forgets everything. Both do nothing the second time.
  void start();
  void stop();
  bool started() const { return !std::holds_alternative<Stopped>(state_); }
  // Starts a new list now and calls `done` once, after `on_change`: with false on failure.
  void refresh(std::function<void(bool)> done);
  // Answers `caller` once objects() are not older than `sought`, after `on_change`. Costs no
  // request: the watch tells of it, or a bookmark. No answer from the time that a server's store is
  // restored until it is listed anew.
  void when_seen(Sighting sought, CatchUpCaller caller);
  // Sets the gauges, whose values change with time.
  void report() const;

 private:
  enum class Next { kList, kWatch };
  struct Stopped {};
  struct Listing {
    bool paged = true;
    std::vector<VersionedObject> fresh{};  // the objects of the pages so far
  };
  struct Watching {
    // The server was asked, has accepted the watch, or has sent an event or a bookmark.
    enum Progress { kAsked, kOpened, kProgressed };
    SteadyTime since;
    SteadyTime last_event;
    std::chrono::seconds silence_limit;
    Progress progress = kAsked;
  };
  struct Waiting {
    Next then;
  };
  // The objects, for other threads; kMissing: the server does not have the resource.
  enum class Known { kNothing, kListed, kMissing };

  // Messages from the Api's threads, handled on the executor in the same order.
  struct Message {
    std::uint64_t epoch;  // identifies its call
    std::function<void()> take;
  };
  struct Inbox {
    std::mutex mutex;
    std::vector<Message> messages;
  };

  VersionedObject entry_of(boost::json::object object) const;
  void deliver(std::uint64_t epoch, std::function<void()> take);
  void drain();
  void take_page(const ListPage& head, std::vector<VersionedObject> items);
  void take_list_failure(const Error& error);
  void take_event(WatchEventType type, VersionedObject entry);
  void take_end(const Status& status);

  void begin(Next next);
  void begin_list(bool paged = true);
  void request_page(const std::string& continue_token);
  void replace(std::vector<VersionedObject> objects, Known known);
  void note_status(const VersionedObject& entry);
  void begin_watch();
  Next after_watch(bool broken) const;
  void arm_alarm(std::chrono::nanoseconds delay);
  void on_silence();
  void wait(std::chrono::nanoseconds delay, Next then);
  void fail(const Error& error, Next then);
  void on_missing(const Error& error);
  void on_reached();
  void count_restart(std::string_view reason);
  Problem problem_of(ErrorCode code, std::string cause) const;
  void settle_refreshes(bool ok);
  bool has_seen(const Sighting& sought) const;
  void tell();

  const InformerOptions options_;
  const std::string kind_;
  ObjectTable table_;

  std::atomic<Known> known_ = Known::kNothing;

  // On the executor.
  Outage<Problem> outage_;
  std::variant<Stopped, Listing, Watching, Waiting> state_;
  std::uint64_t epoch_ = 0;  // of the state: what an earlier one asked for is not taken any more
  std::string version_;
  bool just_listed_ = false;  // no watch was accepted since the last list
  // Time since which the kind is missing, though it was there.
  std::optional<SteadyTime> doubted_since_;
  unsigned failures_ = 0;                              // in a row
  unsigned misses_ = 0;                                // in a row: the resource is missing
  std::vector<ObjectKey> changed_;                     // not announced yet
  std::vector<ObjectKey> restated_;                    // as changed_, of statuses
  bool news_ = false;                                  // has_synced() or similar changed
  std::vector<std::function<void(bool)>> refreshing_;  // callers that wait for the running list
  std::vector<std::function<void(bool)>> refresh_next_;
  CatchUpWaiters waiters_;

  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  // Tells posted tasks that the informer is gone.
  std::shared_ptr<Informer*> self_;
  Subscription retry_;
  Subscription problem_timer_;
  Subscription alarm_;
  Subscription call_;
};

}  // namespace osm::inline v1::kubernetes
