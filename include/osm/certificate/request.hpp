// Certificate requests (PKCS#10): make one where the key is used, check it before a CA signs, and
// check the CA's answer before use. For issuers and for machines that keep their keys.
#pragma once

#include <chrono>
#include <string>

#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

// Requested validity of proxy certificates: longer than the likely life of a machine. The CA's own
// end limits it, and the proxy renews the certificate earlier (docs/vm.md).
inline constexpr std::chrono::hours kProxyCertificateValidity{24 * 365 * 10};

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
