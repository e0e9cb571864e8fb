#include "osm/certificate/request.hpp"

#include <utility>

#include "certificate/issuance.hpp"
#include "certificate/p256.hpp"
#include "certificate/x509.hpp"

namespace osm::inline v1::certificate {
namespace {

using openssl::CleanErrorQueue;

constexpr std::size_t kMaxRequest = 16 * 1024;

Error refused(const Subject& subject, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "certificate request for common name " +
                                           x509::in_quotes(subject.common_name.str()) + ": " + why};
}

bool is_accepted_key(const EVP_PKEY* key) {
  if (!key) return false;
  const int bits = EVP_PKEY_get_bits(key);
  if (EVP_PKEY_is_a(key, "RSA") == 1) return bits >= 2048 && bits <= 4096;
  return EVP_PKEY_is_a(key, "ED25519") == 1 || p256::is_p256(*key);
}

// Requires that the request asks for one set of subject alternative names and nothing else. Result:
// these names.
Result<x509::AlternativeNames> requested_names(const Subject& subject, X509_REQ& request) {
  const Error more = refused(subject,
                             "asks for more than names: send no extension but "
                             "subjectAltName, and no other attribute");
  if (X509_REQ_get_attr_count(&request) != 1) return more;
  const ASN1_OBJECT* attribute = X509_ATTRIBUTE_get0_object(X509_REQ_get_attr(&request, 0));
  if (OBJ_obj2nid(attribute) != NID_ext_req) return more;
  STACK_OF(X509_EXTENSION)* list = X509_REQ_get_extensions(&request);
  const openssl::Extensions owned(list);
  if (sk_X509_EXTENSION_num(list) != 1) return more;
  X509_EXTENSION* extension = sk_X509_EXTENSION_value(list, 0);
  if (OBJ_obj2nid(X509_EXTENSION_get_object(extension)) != NID_subject_alt_name) return more;
  const openssl::Names names(static_cast<GENERAL_NAMES*>(X509V3_EXT_d2i(extension)));
  if (!names) return refused(subject, "its subjectAltName cannot be read");
  return x509::alternative_names(names.get());
}

}  // namespace

Result<OwnRequest> request_over_new_key(const Subject& subject, const KeyParameters& parameters) {
  const CleanErrorQueue clean;
  OSM_TRY(x509::validate(subject));
  OSM_TRY(openssl::Key key, x509::generate_key(parameters));
  OSM_TRY(const openssl::Request request, x509::make_request(subject, *key));
  OSM_TRY(std::string pem, x509::to_pem(*request));
  return OwnRequest{std::move(key), std::move(pem)};
}

Result<KeyAndRequest> make_request(const Subject& subject, const KeyParameters& parameters) {
  const CleanErrorQueue clean;
  OSM_TRY(OwnRequest made, request_over_new_key(subject, parameters));
  OSM_TRY(PrivateKey key_pem, x509::to_pem(*made.key));
  return KeyAndRequest{std::move(key_pem), std::move(made.pem)};
}

Status check_request(const Subject& subject, const std::string& request_pem) {
  const CleanErrorQueue clean;
  const auto checked = checked_request(subject, request_pem);
  return checked ? Status() : Status(checked.error());
}

Result<openssl::Request> checked_request(const Subject& subject, const std::string& request_pem) {
  const CleanErrorQueue clean;
  OSM_TRY(x509::validate(subject));
  if (request_pem.size() > kMaxRequest) return refused(subject, "is larger than 16 kB");
  auto parsed = x509::parse_request(request_pem);
  if (!parsed) return refused(subject, parsed.error().message);
  X509_REQ& request = **parsed;

  EVP_PKEY* key = X509_REQ_get0_pubkey(&request);
  if (!is_accepted_key(key))
    return refused(subject,
                   "its key is not taken: use ECDSA P-256, RSA of 2048 to 4096 bits, or Ed25519");
  if (X509_REQ_verify(&request, key) != 1)
    return refused(subject, "its signature is not by its own key");

  const X509_NAME* name = X509_REQ_get_subject_name(&request);
  if (X509_NAME_entry_count(name) != 1 || x509::common_name(*name) != subject.common_name.str())
    return refused(subject, "its subject is not exactly that common name");
  OSM_TRY(const x509::AlternativeNames names, requested_names(subject, request));
  if (!x509::same_names(names, subject))
    return refused(subject, "its subjectAltName is not exactly URI " +
                                x509::in_quotes(subject.spiffe_id.str()) +
                                (subject.dns_names.empty() ? "" : " and the subject's DNS names"));
  return parsed;
}

}  // namespace osm::inline v1::certificate
