// Machines that ask to be taken out of their Services: decides which proxies may ask. A callback
// drains the machine.
//
// Thread: answer() on the strand; the callback's answer may come on any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "ads/admission.hpp"
#include "ads/peer.hpp"
#include "ads/proxy_stream.hpp"
#include "base/log_limit.hpp"
#include "model/mesh_snapshot.hpp"
#include "openservicemesh/certificate/v1/proxy_certificate.pb.h"
#include "osm/clock.hpp"
#include "osm/log.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::ads {

inline constexpr const char* kDrainMethod =
    "/openservicemesh.certificate.v1.ProxyCertificateService/DrainMachine";

// Limit over all proxies for waiting requests: each may wait for the record of drained machines.
inline constexpr std::size_t kMaxWaitingDrains = 64;

using DrainAnswer = Result<openservicemesh::certificate::v1::DrainMachineResponse>;

// Drains the machine of `workload`, which is that of the caller's certificate. Calls `done` once,
// at once or later, on any thread. Dropping `done` means no answer. Must not block.
using DrainMachine = std::function<void(std::shared_ptr<const model::WorkloadEntry> workload,
                                        std::function<void(DrainAnswer)> done)>;

class Drains {
 public:
  // Lifetime: everything borrowed outlives the object. `drain` is not empty if answer() is called.
  Drains(const Admission& admission, const Clock& clock, LogSink& log, const DrainMachine& drain)
      : admission_(admission), log_(log), refusals_logged_(clock), drain_(drain) {}

  // Answers one call. `peer`: the verified peer, or the reason why it is not a proxy.
  void answer(const Result<Peer>& peer, const std::string& bytes,
              const std::shared_ptr<UnaryCall>& call);

 private:
  Result<std::shared_ptr<const model::WorkloadEntry>> machine_of(const Result<Peer>& peer,
                                                                 const std::string& bytes) const;

  const Admission& admission_;
  LogSink& log_;
  LogLimit refusals_logged_;
  const DrainMachine& drain_;
  std::shared_ptr<std::atomic<std::size_t>> waiting_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace osm::inline v1::ads
