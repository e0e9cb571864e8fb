// Source of identities' secrets for ads. Keys use this path only and never enter a snapshot.
#pragma once

#include <functional>

#include "osm/certificate/manager.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::model {

class SecretSource {
 public:
  virtual ~SecretSource() = default;

  // Result: the identity's current certificate with its trust bundle; null while it is being
  // issued. The first call starts that, and subscribers are notified when it is there.
  // Thread: any. Blocking: no.
  virtual certificate::CertificatePtr certificate_for(const ServiceIdentity& identity) = 0;

  // Forgets the identity's certificate: no proxy of it is left. Thread: any. Blocking: no.
  virtual void release(const ServiceIdentity& identity) = 0;

  // Calls `on_change` with each identity whose certificate or trust bundle changed.
  // Thread: the source's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void(const ServiceIdentity&)> on_change) = 0;
};

}  // namespace osm::inline v1::model
