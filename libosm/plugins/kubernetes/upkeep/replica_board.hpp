// The replica board in a cluster: each replica keeps its own Lease in the mesh's namespace, with
// one annotation per topic, and lists the others' Leases.
//
// A replica is judged as in lease.hpp, by this replica's own monotonic clock: it is gone when its
// Lease stands still for its duration. Any replica deletes Leases that have stood still for long.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/strand.hpp"
#include "kubernetes/client/informer.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/notifier.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

class LeaseBoard final : public ReplicaBoard {
 public:
  explicit LeaseBoard(const ReplicaBoardOptions& options);
  // Leaves the board, so that no replica waits for this one. Blocking: for some calls of the API.
  ~LeaseBoard() override;

  // Stops without leaving the board, like a killed replica.
  // Blocking: until a running call of the API has returned.
  void stop() { strand_.stop(); }

  Status publish(const std::string& topic, std::string text) override;
  Result<std::map<std::string, std::string>> read(const std::string& topic) const override;
  std::optional<SteadyTime> confirmed_at() const override;
  Subscription subscribe(std::function<void()> on_change) override;

 private:
  using Topics = std::map<std::string, std::string>;
  // A Lease.
  struct Seen {
    std::string replica;
    std::string renewed;  // renewTime
    SteadyTime since;     // of the last change that came here
    std::chrono::seconds duration;
    Topics topics;
    std::set<std::string> takes_part{};  // empty: in all
    std::string uid;
    bool alive = true;  // at the last judgement
  };
  using Leases = std::map<std::string, Seen>;

  void tick();
  void write_soon();
  void write();
  void on_leases(const std::vector<ObjectKey>& keys);
  void judge();
  static Seen seen_of(const Object& object, SteadyTime now);
  bool lives(const std::string& name, const Seen& seen, SteadyTime now) const;
  void collect(const std::string& name, const std::string& uid);

  Api& api_;
  const Runtime runtime_;
  const ReplicaBoardOptions options_;
  const std::string name_;  // name of our Lease
  const SteadyTime begun_;

  mutable std::mutex mutex_;  // guards the next five
  Topics ours_;
  bool unwritten_ = true;
  Leases leases_;                         // by name
  std::optional<SteadyTime> heard_at_;    // the last write that the watch told of began then
  std::optional<SteadyTime> written_at_;  // the last write that succeeded began then

  // On the strand.
  std::pair<std::string, SteadyTime> last_write_;  // its renewTime and its beginning
  std::optional<SteadyTime> tried_at_;
  bool write_waits_ = false;
  bool failing_ = false;
  Notifier<> changed_;
  Strand strand_;
  Informer informer_;
  Subscription tick_timer_;
  Subscription write_timer_;
};

}  // namespace osm::inline v1::kubernetes
