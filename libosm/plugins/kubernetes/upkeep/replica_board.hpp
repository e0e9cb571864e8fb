// The replicas' board in a cluster: each replica keeps a Lease of its own in the mesh's namespace,
// with a topic in each annotation, and lists those of the others.
//
// Who lives is judged as lease.hpp does it, by this replica's own monotonic clock: whose Lease
// stands still for its duration is gone. What has stood still for long is collected, by any.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/strand.hpp"
#include "kubernetes/client/surroundings.hpp"
#include "osm/notifier.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::inline v1::kubernetes {

struct LeaseBoardOptions {
  std::string ns;
  std::string mesh_name;
  std::string replica;  // no other has it
  std::chrono::seconds duration{15};
  std::chrono::seconds renew{5};    // less than a third of `duration`
  std::chrono::seconds look{2};     // from one list to the next
  std::chrono::minutes collect{5};  // what stood still for so long
  std::set<std::string> topics{};   // that this replica takes part in; empty: all
};

class LeaseBoard final : public ReplicaBoard {
 public:
  LeaseBoard(const Surroundings& surroundings, LeaseBoardOptions options);
  // Leaves the board, so that nobody waits for this replica. Blocking: for some calls of the API.
  ~LeaseBoard() override;

  // Leaves nothing behind but what is there, as a replica that was killed.
  // Blocking: until a call of the API that is under way has returned.
  void stop();

  Status publish(const std::string& topic, std::string text) override;
  Result<std::map<std::string, std::string>> read(const std::string& topic) const override;
  Subscription subscribe(std::function<void()> on_change) override;

 private:
  using Topics = std::map<std::string, std::string>;
  // Of one Lease.
  struct Seen {
    std::string replica;
    std::string version;
    SteadyTime since;  // it stands still, as seen from here
    std::chrono::seconds duration;
    Topics topics;
    std::set<std::string> takes_part{};  // empty: in all
    std::string uid;
    bool alive = true;  // when it was last looked at
  };
  using Leases = std::map<std::string, Seen>;

  void tick();
  void write_soon();
  void write();
  void look();
  void look_at(const boost::json::object& lease, SteadyTime now, Leases& present) const;
  bool lives(const std::string& name, const Seen& seen, SteadyTime now) const;
  void collect(const Leases& leases);

  const Surroundings with_;
  const LeaseBoardOptions options_;
  const std::string name_;      // of our Lease
  const std::string selector_;  // of all

  mutable std::mutex mutex_;  // over the next five
  Topics ours_;
  bool unwritten_ = true;
  Leases leases_;                        // by name
  std::optional<SteadyTime> looked_at_;  // the last list that was answered was asked for then
  std::optional<SteadyTime> written_at_;

  // On the strand.
  std::optional<SteadyTime> tried_at_;
  bool write_waits_ = false;
  bool failing_ = false;
  Notifier<> changed_;
  Strand strand_;
  Subscription tick_timer_;
  Subscription write_timer_;
};

}  // namespace osm::inline v1::kubernetes
