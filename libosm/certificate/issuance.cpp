#include "certificate/issuance.hpp"

#include <utility>

#include "certificate/x509.hpp"
#include "osm/certificate/request.hpp"

namespace osm::inline v1::certificate {
namespace {

Result<Certificate> sign(Issuer& issuer, const SigningRequest& request, const EVP_PKEY& key,
                         const Clock& clock, TrustedRoots& roots) {
  std::string id = issuer.id();
  OSM_TRY(const std::string chain, issuer.sign(request));
  const std::string bundle = issuer.trust_bundle_pem();
  OSM_TRY(Certificate certificate, check_answer({.subject = request.subject,
                                                 .request_pem = request.request_pem,
                                                 .chain_pem = chain,
                                                 .trust_bundle_pem = bundle,
                                                 .validity = request.validity},
                                                key, clock, roots));
  certificate.issuer_id = std::move(id);
  return certificate;
}

}  // namespace

Result<TrustedRoots::Roots> TrustedRoots::of(const std::string& bundle_pem) {
  {
    const std::lock_guard lock(mutex_);
    if (roots_ && pem_ == bundle_pem) return roots_;
  }
  OSM_TRY(std::vector<openssl::X509Handle> parsed, x509::parse_certificates(bundle_pem));
  const std::lock_guard lock(mutex_);
  roots_ = std::make_shared<const std::vector<openssl::X509Handle>>(std::move(parsed));
  pem_ = bundle_pem;
  return roots_;
}

Result<Certificate> issue(Issuer& issuer, const Subject& subject, std::chrono::seconds validity,
                          const KeyParameters& parameters, const Clock& clock,
                          TrustedRoots& roots) {
  const openssl::CleanErrorQueue clean;
  OSM_TRY(OwnRequest made, request_over_new_key(subject, parameters));
  OSM_TRY(Certificate certificate,
          sign(issuer, {subject, std::move(made.pem), validity}, *made.key, clock, roots));
  OSM_TRY(certificate.private_key, x509::to_pem(*made.key));
  return certificate;
}

Result<Certificate> issue(Issuer& issuer, const Subject& subject, std::chrono::seconds validity,
                          const KeyParameters& parameters, const Clock& clock) {
  TrustedRoots roots;
  return issue(issuer, subject, validity, parameters, clock, roots);
}

Result<Certificate> certify(Issuer& issuer, const Subject& subject, const std::string& request_pem,
                            std::chrono::seconds validity, const Clock& clock,
                            TrustedRoots& roots) {
  const openssl::CleanErrorQueue clean;
  OSM_TRY(const openssl::Request request, checked_request(subject, request_pem));
  return sign(issuer, {subject, request_pem, validity}, *X509_REQ_get0_pubkey(request.get()), clock,
              roots);
}

}  // namespace osm::inline v1::certificate
