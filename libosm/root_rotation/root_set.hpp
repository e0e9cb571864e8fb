// Several roots as one Issuer: one signs, the others are trusted beside it. RootRotation sets them.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/openssl.hpp"
#include "model/names.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/clock.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::root_rotation {

class RootSet final : public certificate::Issuer {
 public:
  // Time of failures, from the first one, after which health() reports them.
  static constexpr std::chrono::seconds kPatience{10};
  // Time without another failure after which they are forgotten: nobody asks the CA any more. The
  // manager asks again within five minutes.
  static constexpr std::chrono::minutes kForgotten{10};

  explicit RootSet(const Clock& clock) : clock_(clock) {}

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
    const auto& signer = by_the_one_before ? now.controller_signer : now.signer;
    auto signed_pem = signer->sign(request);
    // An issuer whose health failed with it tells by that when it can sign again.
    if (signed_pem.ok() || signer->health().ok()) note_outcome(signed_pem);
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
  // Failure: what the CA knows by itself; that it is another CA than the mesh trusts; else the last
  // error of sign().
  Status health() const override {
    const Roots now = roots();
    if (const Status known = now.signer->health(); !known.ok()) return known;
    if (!shows_a_root_of(now.bundle_pem, now.signer->trust_bundle_pem()))
      return Error{ErrorCode::kInvalidCertificate,
                   "the CA has other roots than the mesh trusts, so that nothing that it signs is "
                   "used: restore the CA's keys, or replace the root of the mesh"};
    const SteadyTime time = clock_.steady_now();
    const std::lock_guard lock(mutex_);
    if (!failure_ || time - failing_since_ < kPatience || time - failed_at_ >= kForgotten)
      return {};
    return *failure_;
  }
  Subscription subscribe(std::function<void()> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  // True too if either bundle cannot be read: others report that.
  bool shows_a_root_of(const std::string& trusted_pem, const std::string& shown_pem) const {
    const std::lock_guard lock(mutex_);
    if (compared_ == std::pair(trusted_pem, shown_pem)) return shown_is_trusted_;
    const openssl::CleanErrorQueue clean;
    const auto trusted = openssl::parse_certificates(trusted_pem);
    const auto shown = openssl::parse_certificates(shown_pem);
    compared_ = {trusted_pem, shown_pem};
    shown_is_trusted_ =
        !trusted.ok() || !shown.ok() || std::ranges::any_of(*shown, [&](const auto& root) {
          return std::ranges::any_of(
              *trusted, [&](const auto& other) { return X509_cmp(root.get(), other.get()) == 0; });
        });
    return shown_is_trusted_;
  }

  void note_end(const std::string& root, const std::string& signed_pem) {
    const openssl::CleanErrorQueue clean;
    const auto chain = openssl::parse_certificates(signed_pem);  // the leaf comes first
    if (!chain.ok()) return;                                     // who asked for it refuses it, too
    const WallTime end = std::chrono::ceil<std::chrono::hours>(openssl::not_after(*chain->front()));
    const std::lock_guard lock(mutex_);
    WallTime& latest = latest_not_after_[root];
    latest = std::max(latest, end);
  }

  void note_outcome(const Result<std::string>& signed_pem) {
    // The request is at fault.
    if (!signed_pem.ok() && signed_pem.error().code == ErrorCode::kInvalidArgument) return;
    const SteadyTime now = clock_.steady_now();
    const std::lock_guard lock(mutex_);
    if (signed_pem.ok()) return failure_.reset();
    if (!failure_ || now - failed_at_ >= kForgotten) failing_since_ = now;
    failed_at_ = now;
    failure_ = signed_pem.error();
  }

  Roots roots() const {
    const std::lock_guard lock(mutex_);
    return roots_;
  }

  const Clock& clock_;
  mutable std::mutex mutex_;  // guards the rest
  Roots roots_;
  std::map<std::string, WallTime> latest_not_after_;
  // Bundles that were compared last, and the result: they change rarely.
  mutable std::pair<std::string, std::string> compared_;
  mutable bool shown_is_trusted_ = true;
  std::optional<Error> failure_;  // why the last certificate was not signed; none: it was
  SteadyTime failing_since_{};    // the first and the last failure
  SteadyTime failed_at_{};
  Notifier<> changed_;
};

}  // namespace osm::inline v1::root_rotation
