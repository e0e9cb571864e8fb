// Decides which streams are served. A stream whose workload is unknown waits for it, and a newer
// stream supersedes older ones of its certificate.
//
// Thread: every function on the strand, except full().
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ads/peer.hpp"
#include "ads/proxy_memory.hpp"
#include "ads/stream_table.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::ads {

class Admission {
 public:
  // Lifetime: everything borrowed outlives the object.
  struct Dependencies {
    StreamTable& streams;
    Runtime runtime;
    Executor& strand;
    std::chrono::milliseconds unknown_workload_wait{};
    std::function<Status()> admits;  // as in ControlPlaneOptions; null: always
    std::function<void(StreamId id, CloseCode code, const std::string& text, bool cut)> close;
  };

  Admission(std::vector<TrustDomain> accepted_domains, Dependencies dependencies)
      : accepted_domains_(std::move(accepted_domains)), deps_(std::move(dependencies)) {}

  // Failure: no proxy may be given anything new, as ControlPlaneOptions::admits says.
  Status admits() const { return deps_.admits ? deps_.admits() : Status(); }
  // True if it serves as many proxies as MeshConfig allows. Thread: any.
  bool full() const { return full_; }
  // The workload of which this peer is the proxy. Failure: kCertificateExpired, kNotReady,
  // kUnknownProxy, kIdentityMismatch, kPermissionDenied (a Denylist).
  Result<std::shared_ptr<const model::WorkloadEntry>> workload_of(const Peer& peer) const;
  // End of the time in which streams of this certificate are served.
  WallTime served_until(const Peer& peer) const;

  // Result of the check if a stream may be served now.
  struct Verdict {
    enum { kServe, kWait, kRefuse } what = kServe;
    CloseCode code{};
    std::string text;
    std::shared_ptr<const model::WorkloadEntry> workload;
  };
  Verdict judge(const Peer& peer) const;
  // Gives a new or waiting stream its place, lets it wait, or ends it. A certificate in its pause
  // (ProxyMemory) gets no further stream: its first request would cost what the pause is for.
  // Result: true if it has its place now.
  [[nodiscard]] bool admit(Stream& stream);
  // Judges a served stream again, as its workload changed. Result: false if that ended it.
  bool keep(Stream& stream);
  // Ends the streams that `newer` supersedes. The caller gives `newer` its place.
  void supersede(const Stream& newer);

  void on_snapshot(std::shared_ptr<const model::MeshSnapshot> snapshot);
  // The number of served proxies, or the limit, may have changed.
  void note_serving();
  // Admits proxies of these trust domains from now on, and ends the streams of others.
  void accept(std::vector<TrustDomain> domains);
  const std::vector<TrustDomain>& accepted_domains() const { return accepted_domains_; }

  ProxyMemory& memory() { return memory_; }

 private:
  std::vector<TrustDomain> accepted_domains_;
  const Dependencies deps_;
  ProxyMemory memory_;
  std::shared_ptr<const model::MeshSnapshot> snapshot_;  // null: not known yet
  std::atomic<bool> full_{false};
};

}  // namespace osm::inline v1::ads
