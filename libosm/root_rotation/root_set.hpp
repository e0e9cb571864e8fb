// Several roots as one Issuer: one signs, others are trusted beside it. Who does what is set from
// outside, by whoever rotates them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "osm/certificate/issuer.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::root_rotation {

class RootSet final : public certificate::Issuer {
 public:
  struct Roots {
    std::shared_ptr<certificate::Issuer> signer;
    // Signs what the control plane shows to proxies (Usage::kController): the root before, while it
    // is trusted, because what a proxy verifies the control plane with came with its own
    // certificate and may be older than the signer.
    std::shared_ptr<certificate::Issuer> controller_signer;
    // Whose names the two certify. What still has a name of the other domain gets it from the
    // other root, until it has asked for its new one.
    TrustDomain domain;
    TrustDomain controller_domain;
    std::string bundle_pem;  // what is trusted, the signers' own roots among it

    friend bool operator==(const Roots&, const Roots&) = default;
  };
  void set(Roots roots);

  Result<std::string> sign(const certificate::SigningRequest& request) override;
  std::string trust_bundle_pem() const override;
  std::string id() const override;
  WallTime not_after() const override;
  Status health() const override;
  Subscription subscribe(std::function<void()> on_change) override;

 private:
  Roots roots() const;

  mutable std::mutex mutex_;
  Roots roots_;
  Notifier<> changed_;
};

// Issuers that share: what `manager` owns and the rotation sets.
std::unique_ptr<certificate::Issuer> share(std::shared_ptr<certificate::Issuer> issuer);

}  // namespace osm::inline v1::root_rotation
