// The seam to a certificate authority: our own, Vault, cert-manager, or a host's.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"
#include "osm/values/mesh_config.hpp"

namespace osm::inline v1::certificate {

// Which kind of key to generate.
struct KeyParameters {
  KeyType type = KeyType::kEcdsaP256;
  int rsa_bits = 2048;  // 2048 to 4096; of RSA keys only

  friend bool operator==(const KeyParameters&, const KeyParameters&) = default;
};

// What to sign.
struct SigningRequest {
  Subject subject;
  std::string request_pem;          // PKCS#10, for this subject, its signature checked
  std::chrono::seconds validity{};  // from now; the issuer may give less, never more
};

// A certificate authority. It signs, and nothing else: whoever asks makes the key and the request
// (osm/certificate/request.hpp) and checks the answer (docs/adr/0023).
class OSM_API Issuer {
 public:
  virtual ~Issuer() = default;

  // Result: the certificate and the intermediates, PEM, leaf first, without the root.
  // Failure: kUnavailable (try again later), kInvalidArgument (a subject or key this issuer cannot
  // certify), kPermissionDenied, kCertificateExpired (the CA's own end is reached), kInternal.
  // Thread: any, concurrently. Blocking: until the CA answers.
  virtual Result<std::string> sign(const SigningRequest& request) = 0;

  // The roots its certificates are verified with, PEM. May change while it runs.
  // Thread: any, concurrently. Blocking: no.
  virtual std::string trust_bundle_pem() const = 0;

  // Which CA signs, for comparison and display: another value, another CA. Never empty.
  // Thread: any, concurrently. Blocking: no.
  virtual std::string id() const = 0;

  // When the issuing CA ends; no certificate outlives it. Thread: any. Blocking: no.
  virtual WallTime not_after() const = 0;

  // Ok while it can sign, as far as it knows. Failure: why it cannot, with the remedy. What it
  // signed before stays valid. Thread: any, concurrently. Blocking: no.
  virtual Status health() const { return {}; }

  // Calls `on_change` when the trust bundle or the id changed; those who cannot say call nobody,
  // and are asked once a minute. Thread: the issuer's, one call at a time; must not block.
  // Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void()> on_change) {
    (void)on_change;
    return {};
  }
};

}  // namespace osm::inline v1::certificate
