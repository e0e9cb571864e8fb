// Interface of a certificate authority: the mesh's own (Tresor), Vault, cert-manager, or the
// host's.
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

// Kind of a key to generate.
struct KeyParameters {
  KeyType type = KeyType::kEcdsaP256;
  int rsa_bits = 2048;  // 2048 to 4096; for RSA keys only

  friend bool operator==(const KeyParameters&, const KeyParameters&) = default;
};

// One certificate to sign.
struct SigningRequest {
  Subject subject;
  std::string request_pem;          // PKCS#10 for this subject; its signature is checked
  std::chrono::seconds validity{};  // from now; the issuer may shorten it, never extend it
};

// A certificate authority. It only signs: the caller makes the key and the request
// (osm/certificate/request.hpp) and checks the answer (docs/adr/0023).
class OSM_API Issuer {
 public:
  virtual ~Issuer() = default;

  // Result: the certificate and the intermediates, PEM, leaf first, without the root.
  // Failure: kUnavailable (try again later), kInvalidArgument (a subject or key that this issuer
  // cannot certify), kPermissionDenied, kCertificateExpired (the CA itself has expired), kInternal.
  // Thread: any, concurrently. Blocking: until the CA answers.
  virtual Result<std::string> sign(const SigningRequest& request) = 0;

  // The roots that verify its certificates, PEM. They may change while it runs.
  // Thread: any, concurrently. Blocking: no.
  virtual std::string trust_bundle_pem() const = 0;

  // Identifies the signing CA, for comparison and display: another value means another CA. Never
  // empty.
  // Thread: any, concurrently. Blocking: no.
  virtual std::string id() const = 0;

  // End of the issuing CA's validity; no certificate outlives it. Thread: any. Blocking: no.
  virtual WallTime not_after() const = 0;

  // Ok while it can sign, as far as it knows. Failure: the reason and the remedy; signed
  // certificates stay valid. Thread: any, concurrently. Blocking: no.
  virtual Status health() const { return {}; }

  // Calls `on_change` when the trust bundle or the id changed. Issuers that cannot detect changes
  // ignore this; the manager polls them every minute.
  // Thread: the issuer's, one call at a time; must not block.
  // Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void()> on_change) {
    (void)on_change;
    return {};
  }
};

}  // namespace osm::inline v1::certificate
