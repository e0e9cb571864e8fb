// Certificate requests (PKCS#10): make one where the key is used, check it before a CA signs, and
// check the CA's answer before use. For issuers and for machines that keep their keys.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

// A proxy is served with its certificate for the validity that MeshConfig sets (30 days by
// default). For this time more, the certificate may only renew itself: a machine that was away
// comes back unaided (docs/adr/0031). The CA may shorten both.
inline constexpr std::chrono::hours kProxyRenewalGrace{24 * 90};

// Validity to request for a proxy certificate. `validity`: of MeshConfig.
constexpr std::chrono::seconds proxy_certificate_life(std::chrono::seconds validity) {
  return validity + kProxyRenewalGrace;
}

// When to renew a proxy certificate, and until when streams are served with it.
struct ProxyCertificateTimes {
  WallTime renew_at;      // two thirds of the time until served_until
  WallTime served_until;  // `not_after` at the latest
};

// The times of a certificate that is valid from `not_before` to `not_after`, while MeshConfig says
// `validity`. Failure: none. Thread: any. Blocking: no.
constexpr ProxyCertificateTimes proxy_certificate_times(WallTime not_before, WallTime not_after,
                                                        std::chrono::seconds validity) {
  constexpr std::chrono::minutes kDatedBack{10};  // CAs do so, because clocks differ
  const bool dated_back = not_after - not_before > 2 * kDatedBack;
  const WallTime issued = dated_back ? not_before + kDatedBack : not_before;
  const WallTime served_until = std::min<WallTime>(not_after, issued + validity);
  return {issued + (served_until - issued) / 3 * 2, served_until};
}

// A new key, and a request that it signed.
struct KeyAndRequest {
  PrivateKey key;
  std::string request_pem;
};

// For all three: Thread: any. Blocking: no, but generating a key takes time.

// Makes a key and a request. Failure: kInvalidArgument for a subject that cannot be certified, and
// for RSA sizes outside 2048 to 4096.
OSM_API Result<KeyAndRequest> make_request(const Subject& subject,
                                           const KeyParameters& parameters = {});

// Checks that the request is for exactly this subject: its signature, its key (P-256, RSA of 2048
// to 4096 bits, Ed25519), its names, and no other extension. At most 16 kB.
// Failure: kInvalidArgument, naming the fault.
OSM_API Status check_request(const Subject& subject, const std::string& request_pem);

// A request and the CA's answer.
struct Answer {
  const Subject& subject;
  const std::string& request_pem;
  const std::string& chain_pem;
  const std::string& trust_bundle_pem;
  std::chrono::seconds validity;
};

// Result: the certificate, its key empty. Failure: kInvalidCertificate (another key than the
// request's, other names, other uses, a CA, a longer validity, not valid now, or not of the
// bundle).
OSM_API Result<Certificate> check_answer(const Answer& answer, const Clock& clock);

}  // namespace osm::inline v1::certificate
