// Writes the progress of policies: conditions Accepted and Programmed in the objects' status, and
// Events for problems. One replica at a time writes, only changes, at a rate that an API server
// handles easily; never anything per proxy.
//
// ControlPlane::object_status() counts the proxies of all replicas.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/rate_limit.hpp"
#include "base/round.hpp"
#include "base/strand.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/source/stored_statuses.hpp"
#include "kubernetes/upkeep/event_writer.hpp"
#include "osm/metrics.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/values/object_status.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr Counter kStatusWritten{
    "osm_status_written_total", "Statuses of policies written, by kind", {"kind"}};

// metav1.Condition, without its time.
struct Condition {
  std::string type;
  std::string status;  // "True", "False"
  std::string reason;
  std::string message;

  friend bool operator==(const Condition&, const Condition&) = default;
};

struct StatusWriterOptions {
  const ObjectStore& store;  // the objects without their status
  // The same objects' statuses. Null: the writer lists them when its turn begins, and does not see
  // later that others change them.
  const StoredStatuses* stored = nullptr;
  // Progress of an object, as ControlPlane::object_status().
  std::function<Result<ObjectStatus>(const ObjectKey&)> status_of;
  // As ControlPlane::list_problems().
  std::function<std::vector<Problem>()> problems;
  std::function<bool()> may_write;  // this replica is the one that does
  std::string replica;              // named in Events
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";
  spec::Kinds kinds = spec::mesh_kinds();
};

class StatusWriter {
 public:
  StatusWriter(Api& api, const Runtime& runtime, StatusWriterOptions options);
  // Blocking: until a running call of the API has returned.
  ~StatusWriter() { strand_.stop(); }

  // Called when these objects changed. Thread: any. Blocking: no.
  void on_objects(const std::vector<ObjectKey>& keys);
  // Called when statuses of these objects changed at the API server. Thread: any. Blocking: no.
  void on_statuses(const std::vector<ObjectKey>& keys);
  // Called when problems, proxies or replicas may have changed. Thread: any. Blocking: no.
  void on_mesh();

 private:
  // Status that an object is to have.
  struct Known {
    std::string uid{};  // metadata.uid; an object that is created again has another
    std::int64_t generation = 0;
    Condition accepted{};
    Condition programmed{};
    bool settled = false;       // it will not change by itself
    bool replicas_lag = false;  // only replicas that have just come hold it back
    bool replicas_known = true;
  };
  // Present status of an object.
  struct Written {
    std::string uid{};
    std::int64_t generation = 0;
    std::vector<Condition> conditions{};
    std::map<std::string, std::string> since{};  // by type: the last transition
    std::string version{};                       // the object's resourceVersion then
    bool seen = false;                           // the store has told of that version
  };

  Pause run();
  void forget();
  bool take_over();
  bool has_status(const ObjectKey& key) const;
  static Written read_status(const boost::json::value& status);
  Written& present(const ObjectKey& key, const Known& known);
  void choose_due();
  void collect(const std::vector<Problem>& problems);
  bool survey(const ObjectKey& key);
  void write_statuses();
  bool write_status(const ObjectKey& key, const Known& known);
  void clear_others();
  bool may_patch();
  Status patch(const ObjectKey& key, Written& wanted);

  Api& api_;
  const Runtime runtime_;
  const StatusWriterOptions options_;
  EventWriter events_;
  RateLimit budget_;

  // Counts of proxies may have changed since the last look at all.
  std::atomic<bool> stale_{false};

  // On the strand.
  std::set<ObjectKey> due_;  // to be checked
  std::map<ObjectKey, Known> known_;
  ObjectKey next_;  // the first that may be written in the next round; empty: any
  std::map<ObjectKey, Written> written_;
  std::map<ObjectKey, std::vector<Problem>> problems_;
  SteadyTime looked_at_all_{};
  bool look_at_all_ = true;  // soon
  bool unfinished_ = false;  // this round left work
  bool wrote_ = false;       // this replica is the writer
  Strand strand_;
  Round round_;
};

}  // namespace osm::inline v1::kubernetes
