// The replica board in a cluster: each replica keeps two Leases in the mesh's namespace and lists
// the others'. One is renewed every few seconds and shows that the replica lives. The other has one
// annotation per topic and is written when a text changes. Every write of a Lease is sent to every
// replica, so a renewal carries no text.
//
// The texts are written before the next renewal, and one watch tells of both: whoever sees a
// renewal has seen the texts before it. A replica that cannot write its texts does not renew.
//
// The leader of all replicas is the holder of one more Lease (lease.hpp).
//
// A replica is judged as in lease.hpp, by this replica's own monotonic clock: it is gone when its
// Lease stands still for its duration. Any replica deletes Leases that have stood still for long.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/round.hpp"
#include "base/strand.hpp"
#include "kubernetes/client/informer.hpp"
#include "kubernetes/upkeep/lease.hpp"
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
  void stop();

  Status publish(const std::string& topic, std::string text) override;
  Result<std::map<std::string, std::string>> read(const std::string& topic) const override;
  std::optional<SteadyTime> confirmed_at() const override;
  Subscription subscribe(std::function<void()> on_change) override;
  bool leads() const override { return lease_ && lease_->leads(); }
  Subscription stand(std::function<void()> on_begin) override;

 private:
  using Topics = std::map<std::string, std::string>;
  // A Lease that is renewed.
  struct Seen {
    std::string replica;
    std::string renewed;  // renewTime
    SteadyTime since;     // of the last change that came here
    std::chrono::seconds duration;
    std::set<std::string> takes_part{};  // empty: in all
    std::string uid;
    bool alive = true;  // at the last judgement
  };
  using Leases = std::map<std::string, Seen>;
  // A Lease with texts.
  struct Texts {
    Topics topics;
    SteadyTime since;  // of the last change that came here
    std::string uid;
  };

  Pause look();
  Pause write();
  Status write_due();
  Status write_texts();
  Status renew(SteadyTime asked);
  Status apply(const std::string& name, boost::json::object annotations, boost::json::object spec);
  void on_leases(const std::vector<ObjectKey>& keys);
  bool take_renewed(const ObjectKey& key, SteadyTime now);
  bool take_texts(const ObjectKey& key, SteadyTime now);
  void judge();
  static Seen seen_of(const Object& object, SteadyTime now);
  bool lives(const std::string& name, const Seen& seen, SteadyTime now) const;
  void collect(const std::string& name, const std::string& uid);

  Api& api_;
  const Runtime runtime_;
  const ReplicaBoardOptions options_;
  const std::string name_;        // name of our Lease that is renewed
  const std::string texts_name_;  // name of our Lease with texts
  const SteadyTime begun_;

  mutable std::mutex mutex_;  // guards the next six
  Topics ours_;
  bool unwritten_ = true;               // `ours_`; at first an earlier process' texts are replaced
  Leases leases_;                       // by name
  std::map<std::string, Texts> texts_;  // by name of the Lease
  std::optional<SteadyTime> heard_at_;  // the last write that the watch told of began then
  std::optional<SteadyTime> written_at_;  // the last write that succeeded began then

  // On the strand.
  std::pair<std::string, SteadyTime> last_write_;  // its renewTime and its beginning
  SteadyTime tried_at_{};                          // the last write, as it began
  Notifier<> changed_;
  Strand strand_;
  Round looks_;
  Round writes_;
  Informer informer_;
  std::optional<Lease> lease_;  // absent: this replica takes part in some topics only
};

}  // namespace osm::inline v1::kubernetes
