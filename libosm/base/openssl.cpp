#include "base/openssl.hpp"

#include <openssl/pem.h>

#include <algorithm>
#include <array>

#include "base/hex.hpp"
#include "base/times.hpp"

namespace osm::inline v1::openssl {

std::string text_of(BIO& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&bio, &data);
  return {data, static_cast<std::size_t>(std::max(size, 0L))};
}

Result<X509Handle> parse_certificate(std::string_view pem) {
  OSM_TRY(std::vector<X509Handle> all, parse_certificates(pem));
  if (all.size() > 1) return Error{ErrorCode::kInvalidCertificate, "more than one certificate"};
  return std::move(all.front());
}

Result<std::vector<X509Handle>> parse_certificates(std::string_view pem) {
  const Bio bio = reader_of(pem);
  if (!bio) return failure("BIO_new_mem_buf");
  std::vector<X509Handle> all;
  while (X509Handle next{PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr)})
    all.push_back(std::move(next));
  // Only the end of the text is a valid reason to stop.
  const unsigned long error = ERR_peek_last_error();
  if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE)
    return Error{ErrorCode::kInvalidCertificate, "a certificate cannot be read: " + reason()};
  ERR_clear_error();
  if (all.empty()) return Error{ErrorCode::kInvalidCertificate, "no PEM certificate"};
  return all;
}

Result<std::string> to_pem(X509& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), &certificate) != 1)
    return failure("PEM_write_bio_X509");
  return text_of(*bio);
}

Result<std::string> sent_pem(std::span<const X509Handle> chain) {
  std::string pem;
  for (const X509Handle& each : chain.first(chain.size() - 1)) {
    OSM_TRY(const std::string one, to_pem(*each));
    pem += one;
  }
  return pem;
}

bool issued(X509& issuer, X509& subject) {
  EVP_PKEY* key = X509_get0_pubkey(&issuer);
  return key && X509_check_issued(&issuer, &subject) == X509_V_OK &&
         X509_verify(&subject, key) == 1;
}

WallTime not_before(const X509& certificate) {
  return time_of(X509_get0_notBefore(&certificate)).value_or(WallTime{});
}

WallTime not_after(const X509& certificate) {
  return time_of(X509_get0_notAfter(&certificate)).value_or(WallTime{});
}

Result<std::string> fingerprint(const X509& certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  if (X509_digest(&certificate, EVP_sha256(), digest.data(), &size) != 1)
    return failure("X509_digest");
  return osm::hex_of({digest.data(), size});
}

std::string hex_of(const ASN1_STRING& bytes) {
  return osm::hex_of(
      {ASN1_STRING_get0_data(&bytes), static_cast<std::size_t>(ASN1_STRING_length(&bytes))});
}

std::string issuer_key_id(X509& certificate) {
  const ASN1_OCTET_STRING* id = X509_get0_authority_key_id(&certificate);
  if (!id) return {};
  return hex_of(*id);
}

}  // namespace osm::inline v1::openssl
