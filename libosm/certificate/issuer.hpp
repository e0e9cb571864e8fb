// The seam to a certificate authority: our own on disk today; Vault and cert-manager are others.
#pragma once

#include <chrono>
#include <string>

#include "osm/certificate.hpp"
#include "osm/clock.hpp"
#include "osm/mesh_config.hpp"
#include "osm/result.hpp"

namespace osm::certificate {

struct KeyParameters {
  KeyType type = KeyType::kEcdsaP256;
  int rsa_bits = 2048;  // 2048 to 4096; of RSA keys only

  friend bool operator==(const KeyParameters&, const KeyParameters&) = default;
};

struct IssueRequest {
  Subject subject;
  std::chrono::seconds validity{};  // from now; the issuer may give less, never more
  KeyParameters key;
};

struct IssuedCertificate {
  std::string chain_pem;  // leaf first, then intermediates, without the root
  PrivateKey private_key;
  std::string serial_number;
  std::string fingerprint;
  WallTime not_before;
  WallTime not_after;
};

class Issuer {
 public:
  virtual ~Issuer() = default;

  // Result: a certificate for `request.subject` over a key that was generated in this process.
  // Failure: kUnavailable (try again later), kInvalidArgument (a subject or key this issuer cannot
  // certify), kCertificateExpired (the CA's own end is reached), kInternal.
  // Thread: any, concurrently. Blocking: until the CA answers.
  virtual Result<IssuedCertificate> issue(const IssueRequest& request) = 0;

  // The roots its certificates are verified with, PEM. May change while it runs; the manager looks
  // at least once a minute. Thread: any, concurrently. Blocking: no.
  virtual std::string trust_bundle_pem() const = 0;

  // When the issuing CA ends; no certificate outlives it. Thread: any. Blocking: no.
  virtual WallTime not_after() const = 0;
};

}  // namespace osm::certificate
