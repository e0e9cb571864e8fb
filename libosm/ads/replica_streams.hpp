// Finds proxy certificates that are in use at two replicas. Each replica publishes its new streams
// on the board, as digests. A replica that has a stream of the same proxy from another address, and
// still has it after the time that a proxy needs to move, reports it.
//
// The cost follows new streams: a mesh at rest publishes nothing. Not synchronized.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/clock.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::inline v1::ads {

class ReplicaStreams {
 public:
  static constexpr const char* kTopic = "new-streams";
  // Longer than gRPC needs to notice that the other end of a connection is gone.
  static constexpr std::chrono::seconds kMove{90};
  static constexpr std::size_t kMaxPublished = 4000;  // in 48 kB; the others wait for their turn
  static constexpr unsigned kPublishedTicks = 30;     // time of each on the board

  struct Twin {
    model::ProxyKey proxy;
    std::string replica;  // the other replica
  };

  // Lifetime: `board` outlives the object. Null: there are no other replicas.
  explicit ReplicaStreams(ReplicaBoard* board) : board_(board) {}

  // A proxy has a new stream here, the only one of it / has none any more.
  void opened(const model::ProxyKey& proxy, std::string_view host);
  void closed(const model::ProxyKey& proxy);

  // Publishes and reads. Result: proxies of this replica that are in use at another one, each once
  // per stream there. Call it every second.
  std::vector<Twin> tick(SteadyTime now);

 private:
  struct Local {
    model::ProxyKey proxy;
    std::string host;
  };
  struct Published {
    std::string host;
    unsigned until;
  };
  struct Suspect {
    std::string replica;
    SteadyTime due;
  };

  void publish();
  void read(SteadyTime now);

  ReplicaBoard* const board_;
  // By the proxy's digest. Hosts are digests, too.
  std::unordered_map<std::string, Local> local_;
  std::map<std::string, std::string> queued_;
  std::map<std::string, Published> published_;
  std::map<std::string, Suspect> suspects_;
  std::string text_;                         // published last
  std::map<std::string, std::string> read_;  // texts by replica, read last
  bool known_ = true;                        // the board could be read last
  unsigned ticks_ = 0;
};

}  // namespace osm::inline v1::ads
