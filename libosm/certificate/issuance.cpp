#include "certificate/issuance.hpp"

#include <utility>

#include "certificate/x509.hpp"
#include "osm/certificate_request.hpp"

namespace osm::inline v1::certificate {
namespace {

// `key`: the request's own; null when it has to be read from it.
Result<Certificate> sign(Issuer& issuer, const SigningRequest& request, const EVP_PKEY* key,
                         const Clock& clock) {
  std::string id = issuer.id();
  OSM_TRY(const std::string chain, issuer.sign(request));
  const std::string bundle = issuer.trust_bundle_pem();
  const Answer answer{.subject = request.subject,
                      .request_pem = request.request_pem,
                      .chain_pem = chain,
                      .trust_bundle_pem = bundle,
                      .validity = request.validity};
  OSM_TRY(Certificate certificate,
          key ? check_answer(answer, key, clock) : check_answer(answer, clock));
  certificate.issuer_id = std::move(id);
  return certificate;
}

}  // namespace

Result<Certificate> issue(Issuer& issuer, const Subject& subject, std::chrono::seconds validity,
                          const KeyParameters& parameters, const Clock& clock) {
  const openssl::CleanErrorQueue clean;
  OSM_TRY(OwnRequest made, request_over_new_key(subject, parameters));
  OSM_TRY(Certificate certificate,
          sign(issuer, {subject, std::move(made.pem), validity}, made.key.get(), clock));
  OSM_TRY(certificate.private_key, x509::to_pem(*made.key));
  return certificate;
}

Result<Certificate> certify(Issuer& issuer, const Subject& subject, const std::string& request_pem,
                            std::chrono::seconds validity, const Clock& clock) {
  if (Status checked = check_request(subject, request_pem); !checked) return checked.error();
  return sign(issuer, {subject, request_pem, validity}, nullptr, clock);
}

}  // namespace osm::inline v1::certificate
