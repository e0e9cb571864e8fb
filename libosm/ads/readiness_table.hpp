// The connected proxies of all replicas, each with what it has acknowledged to serve. Each replica
// publishes one set of its own proxies on the board, as digests. So the catalog of any replica
// knows if a workload's proxy can serve an endpoint, and a caller (ADR 0071).
//
// A mesh at rest publishes nothing. The board joins the changes of a second to one write.
//
// Thread: awaited(), acknowledged(), disconnected(), settle() and tick() one at a time; the rest
// any.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/proxy_readiness.hpp"
#include "osm/clock.hpp"
#include "osm/notifier.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::inline v1::ads {

class ReadinessTable final : public model::ProxyReadiness {
 public:
  static constexpr const char* kTopic = "ready-proxies";
  // Proxies in a text: 48 kB, 64 kB in base64. Other replicas do not know the rest.
  static constexpr std::size_t kMaxPublished = 6000;
  // Time from an acknowledgement until it counts: an Envoy's workers are later than it.
  static constexpr std::chrono::milliseconds kSettle{250};
  // Time for which a proxy whose stream ended, or whose replica left, counts as connected. It
  // reconnects in that time.
  static constexpr std::chrono::seconds kReturn{10};

  // Lifetime: both outlive the object. `board` null: there are no other replicas.
  ReadinessTable(ReplicaBoard* board, const Clock& clock);

  // The proxy is connected here and has not acknowledged its present ports / acknowledged the
  // configuration that serves so / is not connected here any more.
  void awaited(const model::ProxyKey& proxy);
  void acknowledged(const model::ProxyKey& proxy, const model::Serving& serving);
  void disconnected(const model::ProxyKey& proxy);

  // Lets acknowledgements count that are old enough, and publishes what changed. Result: true if it
  // has to be called again after kSettle. Call it kSettle after any of the functions above.
  bool settle();
  // Forgets proxies that did not come back, and reads the board. Call it every second.
  void tick();
  // Uses the board no more, but for settle() and tick(). Thread: any. Blocking: until a running
  // read is done.
  void stop() { told_.reset(); }

  model::Readiness readiness_of(const model::ProxyKey& proxy,
                                const model::Serving& serving) const override;
  Subscription subscribe(std::function<void()> on_ready) override {
    return ready_.subscribe(std::move(on_ready));
  }

 private:
  // The start of a digest as a number. 0: nothing is acknowledged.
  using ProxyId40 = std::uint64_t;
  using Serving24 = std::uint32_t;
  using Set = std::unordered_map<ProxyId40, Serving24>;

  struct Local {
    Serving24 serving = 0;
    std::optional<SteadyTime> gone;  // its stream ended
  };
  struct Acknowledged {
    SteadyTime at;
    ProxyId40 proxy;
    Serving24 serving;
  };

  static ProxyId40 id_of(const model::ProxyKey& proxy);
  static Serving24 digest_of(const model::Serving& serving);
  static std::string text_of(const std::map<ProxyId40, Local>& proxies);
  static Set parse(std::string_view text);
  void publish();
  void read();

  ReplicaBoard* const board_;
  const Clock& clock_;
  std::deque<Acknowledged> settling_;  // oldest first
  bool changed_ = false;               // since the last text that the board took
  Notifier<> ready_;
  mutable std::mutex mutex_;                      // guards what follows
  std::map<ProxyId40, Local> local_;              // ordered, so that equal sets are equal texts
  std::map<std::string, std::string> texts_;      // by replica, read last
  std::map<std::string, Set> others_;             // by replica
  std::vector<std::pair<SteadyTime, Set>> left_;  // of replicas that left, oldest first
  Subscription told_;                             // last: its callback uses the rest
};

}  // namespace osm::inline v1::ads
