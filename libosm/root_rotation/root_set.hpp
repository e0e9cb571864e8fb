// Several roots as one Issuer: one signs, the others are trusted beside it. RootRotation sets them.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/openssl.hpp"
#include "model/names.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::root_rotation {

class RootSet final : public certificate::Issuer {
 public:
  struct Roots {
    std::shared_ptr<certificate::Issuer> signer;
    // Signs the certificates that the control plane shows to proxies (Usage::kController). It is
    // the root that signed before, while that is trusted: the bundle by which a proxy verifies the
    // control plane came with the proxy's own certificate, and may be older than the signer.
    std::shared_ptr<certificate::Issuer> controller_signer;
    // Trust domains of the two. A certificate that is renewed under a name of the other domain is
    // signed by the other root.
    TrustDomain domain;
    TrustDomain controller_domain;
    // Names of the two.
    std::string name{};
    std::string controller_name{};
    std::string bundle_pem;  // bundle of all trusted roots, the signers among them

    friend bool operator==(const Roots&, const Roots&) = default;
  };
  void set(Roots roots) {
    {
      const std::lock_guard lock(mutex_);
      if (roots_ == roots) return;
      roots_ = std::move(roots);
    }
    changed_.notify();
  }

  Result<std::string> sign(const certificate::SigningRequest& request) override {
    const Roots now = roots();
    const TrustDomain domain = model::trust_domain_of(request.subject.spiffe_id);
    const bool of_the_one_before = domain != now.domain && domain == now.controller_domain;
    const bool shown_to_proxies = request.subject.usage == certificate::Usage::kController;
    const bool by_the_one_before = shown_to_proxies || of_the_one_before;
    auto signed_pem = (by_the_one_before ? now.controller_signer : now.signer)->sign(request);
    if (signed_pem.ok()) note_end(by_the_one_before ? now.controller_name : now.name, *signed_pem);
    return signed_pem;
  }

  // The latest end among the certificates that each root signed in this process, in full hours, so
  // that it changes once an hour at most. Thread: any.
  std::map<std::string, WallTime> latest_not_after() const {
    const std::lock_guard lock(mutex_);
    return latest_not_after_;
  }

  std::string trust_bundle_pem() const override { return roots().bundle_pem; }
  // The id also changes if only the control plane's own certificates get another signer.
  std::string id() const override {
    const Roots now = roots();
    std::string id = now.signer->id();
    if (now.controller_signer != now.signer) id += " (before: " + now.controller_signer->id() + ")";
    return id;
  }

  WallTime not_after() const override { return roots().signer->not_after(); }
  Status health() const override { return roots().signer->health(); }
  Subscription subscribe(std::function<void()> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  void note_end(const std::string& root, const std::string& signed_pem) {
    const openssl::CleanErrorQueue clean;
    const auto certificate = openssl::parse_certificate(signed_pem);
    if (!certificate.ok()) return;  // who asked for it refuses it, too
    const WallTime end = std::chrono::ceil<std::chrono::hours>(openssl::not_after(**certificate));
    const std::lock_guard lock(mutex_);
    WallTime& latest = latest_not_after_[root];
    latest = std::max(latest, end);
  }

  Roots roots() const {
    const std::lock_guard lock(mutex_);
    return roots_;
  }

  mutable std::mutex mutex_;
  Roots roots_;
  std::map<std::string, WallTime> latest_not_after_;
  Notifier<> changed_;
};

}  // namespace osm::inline v1::root_rotation
