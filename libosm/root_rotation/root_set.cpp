#include "root_rotation/root_set.hpp"

#include <utility>

#include "model/names.hpp"

namespace osm::inline v1::root_rotation {
namespace {

class Shared final : public certificate::Issuer {
 public:
  explicit Shared(std::shared_ptr<certificate::Issuer> issuer) : issuer_(std::move(issuer)) {}

  Result<std::string> sign(const certificate::SigningRequest& request) override {
    return issuer_->sign(request);
  }
  std::string trust_bundle_pem() const override { return issuer_->trust_bundle_pem(); }
  std::string id() const override { return issuer_->id(); }
  WallTime not_after() const override { return issuer_->not_after(); }
  Status health() const override { return issuer_->health(); }
  Subscription subscribe(std::function<void()> on_change) override {
    return issuer_->subscribe(std::move(on_change));
  }

 private:
  const std::shared_ptr<certificate::Issuer> issuer_;
};

}  // namespace

void RootSet::set(Roots roots) {
  {
    const std::lock_guard lock(mutex_);
    if (roots_ == roots) return;
    roots_ = std::move(roots);
  }
  changed_.notify();
}

RootSet::Roots RootSet::roots() const {
  const std::lock_guard lock(mutex_);
  return roots_;
}

Result<std::string> RootSet::sign(const certificate::SigningRequest& request) {
  const Roots now = roots();
  const TrustDomain domain = model::trust_domain_of(request.subject.spiffe_id);
  const bool of_the_one_before = domain != now.domain && domain == now.controller_domain;
  const bool shown_to_proxies = request.subject.usage == certificate::Usage::kController;
  return (shown_to_proxies || of_the_one_before ? now.controller_signer : now.signer)
      ->sign(request);
}

std::string RootSet::trust_bundle_pem() const { return roots().bundle_pem; }

// The id also changes if only the control plane's own certificates get another signer.
std::string RootSet::id() const {
  const Roots now = roots();
  std::string id = now.signer->id();
  if (now.controller_signer != now.signer) id += " (before: " + now.controller_signer->id() + ")";
  return id;
}

WallTime RootSet::not_after() const { return roots().signer->not_after(); }

Status RootSet::health() const { return roots().signer->health(); }

Subscription RootSet::subscribe(std::function<void()> on_change) {
  return changed_.subscribe(std::move(on_change));
}

std::unique_ptr<certificate::Issuer> share(std::shared_ptr<certificate::Issuer> issuer) {
  return std::make_unique<Shared>(std::move(issuer));
}

}  // namespace osm::inline v1::root_rotation
