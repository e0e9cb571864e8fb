// Judges if a replica of a control plane is stale: it has had no proof for too long that it reaches
// the server of the mesh's objects. A stale replica sends proxies elsewhere while another replica
// answers that it is not stale and admits proxies; else it serves what it knows.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::host {

// Thread: any. Blocking: no.
class Freshness {
 public:
  // An answer of another replica counts for this time.
  static constexpr std::chrono::seconds kAnswerLife{15};
  // A replica that the others no longer list is forgotten after this time, which only runs while
  // they can be listed. Longer than a Lease needs to expire.
  static constexpr std::chrono::minutes kPeerLife{1};

  struct Peer {
    std::string replica;
    std::string address;
  };

  // A replica's /version. Defaults stand for members that are absent.
  struct Answer {
    std::string replica;          // its name
    std::int64_t generation = 0;  // 0: it knows no mesh yet
    bool stale = true;
    bool admits = false;  // it takes new proxies
  };

  // Lifetime: `clock` outlives the object.
  Freshness(const Clock& clock, std::chrono::seconds stale_after)
      : clock_(clock), stale_after_(stale_after) {}

  // Time of the newest proof, as ReplicaBoard::confirmed_at().
  void confirmed(std::optional<SteadyTime> at);
  // Addresses of the other replicas by name, as they are listed now; without an address, a replica
  // cannot be asked.
  void listed(const std::map<std::string, std::string>& addresses);
  // A replica was asked just now; nullopt: it did not answer. Result: true if proxies are better
  // served there than by a stale replica.
  bool answered(const std::string& replica, const std::optional<Answer>& answer);

  // Time since the newest proof; 0 where none is possible.
  std::chrono::nanoseconds staleness() const;
  bool stale() const;
  // The replicas to ask, first those that took proxies and were not stale.
  std::vector<Peer> peers() const;
  // Failure: kUnavailable: stale, and another replica takes proxies and is not; with the cause, for
  // operators.
  Status admits() const;

 private:
  struct Known {
    std::string address;
    SteadyTime listed_at;
    std::optional<SteadyTime> fresh_at;  // it said that it takes proxies and is not stale
  };

  const Clock& clock_;
  const std::chrono::seconds stale_after_;
  mutable std::mutex mutex_;  // guards the rest
  std::optional<SteadyTime> confirmed_;
  std::map<std::string, Known> peers_;
};

}  // namespace osm::inline v1::host
