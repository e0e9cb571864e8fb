// Ends streams: at once, after the write in flight, or a few at a time, as for a recall, a drain
// and the balance of replicas.
//
// Thread: every function on the strand. After Strand::stop() the owner may call close_all().
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "ads/pacer.hpp"
#include "ads/push_queue.hpp"
#include "ads/stream_balance.hpp"
#include "ads/stream_table.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::ads {

inline constexpr const char* kShuttingDown = "shutting-down";

class Endings {
 public:
  // Lifetime: everything borrowed outlives the object.
  struct Dependencies {
    StreamTable& streams;
    PushQueue& queue;
    Runtime runtime;
    Executor& strand;
    ReplicaBoard* board;             // null: streams are not balanced
    std::function<Status()> admits;  // failure: this replica takes no streams
    std::function<void(const Stream& stream, CloseCode code, const std::string& text)> report;
    std::function<void(StreamId id)> forget;  // takes the stream out of the table
    std::function<void()> pump;               // the queue may have room
  };

  explicit Endings(Dependencies dependencies)
      : deps_(std::move(dependencies)),
        balance_(deps_.board),
        pacer_(deps_.strand, deps_.runtime.rng,
               [this](StreamId id, const std::string& text) { end_paced(id, text); }) {}

  // Ends the stream, unless it has ended. Its status follows a write in flight; `cut`: at once.
  void close(StreamId id, CloseCode code, const std::string& text, bool cut = false);
  // The write of an ended stream is done, or its peer is gone.
  void on_write_done(StreamId id) { end(id, false); }
  // Also ends those whose write is in flight.
  void close_all(CloseCode code, const std::string& text);
  // Cuts streams whose write has taken too long. Call it every second.
  void cut_stalled(SteadyTime now);

  // Ends the present streams within `window`, a few at a time; until then each is served. The hub
  // asks draining(), and admits no stream from now on. `done` is called after the last one.
  // Precondition: window >= Pacer::kTurn.
  void drain(std::chrono::nanoseconds window, std::function<void()> done);
  bool draining() const { return draining_; }
  // The streams whose proxy certificate is of another CA key.
  void recall(const std::string& issuer_key_id);
  // Nothing of a kind is left for the proxy.
  void end_emptied(const Stream& stream);
  // Ends streams that other replicas should have. Call it every second.
  void rebalance(SteadyTime now);

  // Proxies that were told to reconnect because they still have resources to remove, with the time.
  const std::map<model::ProxyKey, SteadyTime>& returning() const { return returning_; }
  void returned(const model::ProxyKey& key) { returning_.erase(key); }
  // Result: true if some did not return in time.
  bool forget_returning(SteadyTime now);

 private:
  // A stream that ended while a response was being written. Its status follows the write, which may
  // be stuck.
  struct Ending {
    std::shared_ptr<ProxyStream> transport;
    CloseCode code{};
    std::string text;
    SteadyTime write_started;
    std::size_t write_bytes = 0;
  };

  void end(StreamId id, bool cut);
  void end_paced(StreamId id, const std::string& text);
  void note_drained();

  const Dependencies deps_;
  StreamBalance balance_;
  Pacer pacer_;
  bool draining_ = false;          // the server shuts down
  std::function<void()> drained_;  // called after the last stream; null: it was called
  std::map<StreamId, Ending> ending_;
  std::map<model::ProxyKey, SteadyTime> returning_;
};

}  // namespace osm::inline v1::ads
