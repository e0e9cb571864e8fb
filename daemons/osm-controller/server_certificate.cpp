#include "server_certificate.hpp"

#include "model/names.hpp"

namespace osm::controller {
namespace {

constexpr std::chrono::hours kValidity{48};

}  // namespace

Result<std::unique_ptr<ServerCertificate>> ServerCertificate::issue(
    certificate::Manager& manager, const TrustDomain& domain, const std::string& osm_namespace) {
  const certificate::Subject subject{CommonName("osm-controller." + osm_namespace),
                                     model::controller_spiffe_id(domain),
                                     certificate::Usage::kController};
  std::unique_ptr<ServerCertificate> self(new ServerCertificate(subject));
  // Subscribed first: a renewal right after the issuance is not missed.
  self->renewals_ =
      manager.subscribe([raw = self.get()](const certificate::CertificatePtr& renewed) {
        if (renewed->subject == raw->subject_) raw->store(renewed);
      });
  OSM_TRY(certificate::CertificatePtr first, manager.issue_certificate(subject, kValidity));
  std::lock_guard lock(self->mutex_);
  if (!self->current_) self->current_ = std::move(first);  // else renewed already
  return self;
}

certificate::CertificatePtr ServerCertificate::load() const {
  std::lock_guard lock(mutex_);
  return current_;
}

void ServerCertificate::store(certificate::CertificatePtr certificate) {
  std::lock_guard lock(mutex_);
  current_ = std::move(certificate);
}

}  // namespace osm::controller
