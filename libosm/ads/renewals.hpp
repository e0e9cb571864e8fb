// Renewal of proxies' own certificates: decides which proxies may ask, and how often. A callback
// issues the certificates.
//
// Thread: every function on the strand; the callback's answer may come on any thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
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

inline constexpr const char* kRenewMethod =
    "/openservicemesh.certificate.v1.ProxyCertificateService/RenewCertificate";

// Limit per proxy. Calls without a certificate request do not count.
inline constexpr unsigned kMaxCertificatesPerMinute = 10;
// Limit over all proxies for waiting requests.
inline constexpr std::size_t kMaxWaitingRenewals = 256;

using RenewalRequest = openservicemesh::certificate::v1::RenewCertificateRequest;
using RenewalAnswer = Result<openservicemesh::certificate::v1::RenewCertificateResponse>;

// A question of an authenticated proxy: TLS proved the certificate, and the present mesh has the
// workload.
struct RenewalQuestion {
  Peer peer;
  std::shared_ptr<const model::WorkloadEntry> workload;
  RenewalRequest request;
};

// Calls `done` once, at once or later, on any thread. Dropping `done` means no answer. Must not
// block.
using RenewCertificate =
    std::function<void(RenewalQuestion question, std::function<void(RenewalAnswer)> done)>;

class Renewals {
 public:
  // Lifetime: everything borrowed outlives the object. `renew` empty: no certificates are issued.
  Renewals(const Admission& admission, const Clock& clock, LogSink& log,
           const RenewCertificate& renew)
      : admission_(admission), clock_(clock), log_(log), refusals_logged_(clock), renew_(renew) {}

  // Answers one call. `peer`: the verified peer, or the reason why it is not a proxy.
  void answer(Result<Peer> peer, const std::string& bytes, const std::shared_ptr<UnaryCall>& call);

 private:
  struct Window {
    SteadyTime since;
    unsigned certificates = 0;
  };

  Result<RenewalQuestion> read(Result<Peer> peer, const std::string& bytes) const;
  bool too_often(const model::ProxyKey& proxy);

  const Admission& admission_;
  const Clock& clock_;
  LogSink& log_;
  LogLimit refusals_logged_;
  const RenewCertificate& renew_;
  std::map<model::ProxyKey, Window> windows_;  // windows of the last minute or two
  SteadyTime forgotten_at_{};
  std::shared_ptr<std::atomic<std::size_t>> waiting_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace osm::inline v1::ads
