#include "root_rotation/root_set.hpp"

#include <utility>

#include "model/names.hpp"

namespace osm::inline v1::root_rotation {
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

std::string RootSet::id() const {
  const Roots now = roots();
  std::string id = now.signer->id();
  if (now.controller_signer != now.signer) id += " (before: " + now.controller_signer->id() + ")";
  return id;
}

}  // namespace osm::inline v1::root_rotation
