// Requests for certificates (PKCS#10): made where the key is to be used, checked before a CA signs,
// and the CA's answer checked before anybody uses it. For issuers and for nodes that keep their
// keys to themselves.
#pragma once

#include <chrono>
#include <string>

#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

// What a proxy's certificate is asked for: longer than a machine is likely to live. The CA's own
// end caps it, and the proxy renews it before (docs/vm.md).
inline constexpr std::chrono::hours kProxyCertificateValidity{24 * 365 * 10};

// A new key, and a request that proves it.
struct KeyAndRequest {
  PrivateKey key;
  std::string request_pem;
};

// All three: Thread: any. Blocking: no, but making a key takes its time.

// Failure: kInvalidArgument: a subject that cannot be certified, RSA sizes outside 2048 to 4096.
OSM_API Result<KeyAndRequest> make_request(const Subject& subject,
                                           const KeyParameters& parameters = {});

// Whether the request is for this subject and nobody else: its signature, its key (P-256, RSA of
// 2048 to 4096 bits, Ed25519), its names exactly, nothing else asked for. At most 16 kB.
// Failure: kInvalidArgument, naming what is wrong.
OSM_API Status check_request(const Subject& subject, const std::string& request_pem);

// What was asked, and what came.
struct Answer {
  const Subject& subject;
  const std::string& request_pem;
  const std::string& chain_pem;
  const std::string& trust_bundle_pem;
  std::chrono::seconds validity;
};

// Result: the certificate, its key empty. Failure: kInvalidCertificate: not over the request's key,
// other names, other uses, a CA, longer than asked, not valid now, or not of the bundle.
OSM_API Result<Certificate> check_answer(const Answer& answer, const Clock& clock);

}  // namespace osm::inline v1::certificate
