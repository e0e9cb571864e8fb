// Source of identities' secrets for ads. Keys use this path only and never enter a snapshot.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "osm/certificate/manager.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::model {

class SecretSource {
 public:
  virtual ~SecretSource() = default;

  // With the identity whose certificate changed; nullopt: the trust bundle did.
  using OnChange = std::function<void(const std::optional<ServiceIdentity>& changed)>;

  // Result: the identity's current certificate; null while it is being issued (asking starts that;
  // subscribers are notified when it is there).
  // Thread: any. Blocking: no.
  virtual certificate::CertificatePtr certificate_for(const ServiceIdentity& identity) = 0;

  // The roots that every identity's peers are verified with, PEM. Thread: any. Blocking: no.
  virtual std::string trust_bundle_pem() const = 0;

  // Checks the certificate of a peer that it has shown in a handshake, perhaps long ago: roots may
  // have left the trust bundle since. `chain_pem`: what the peer sent beside it, or empty.
  // Failure: kInvalidCertificate. Thread: any. Blocking: no.
  virtual Status check_peer(const std::string& leaf_pem, const std::string& chain_pem) const = 0;

  // No proxy of this identity is left: forget its certificate. Thread: any. Blocking: no.
  virtual void release(const ServiceIdentity& identity) = 0;

  // A change of the trust bundle is one call, however many identities there are.
  // Thread: the source's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(OnChange on_change) = 0;
};

}  // namespace osm::inline v1::model
