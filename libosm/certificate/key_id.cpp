#include "certificate/key_id.hpp"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "certificate/openssl.hpp"

namespace osm::inline v1::certificate {

std::string issuer_key_id(const std::string& chain_pem) {
  const openssl::CleanErrorQueue clean;
  const openssl::Bio bio(BIO_new_mem_buf(chain_pem.data(), static_cast<int>(chain_pem.size())));
  if (!bio) return {};
  const openssl::X509Handle leaf(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  const ASN1_OCTET_STRING* id = leaf ? X509_get0_authority_key_id(leaf.get()) : nullptr;
  if (!id) return {};
  constexpr char kDigits[] = "0123456789abcdef";
  const unsigned char* bytes = ASN1_STRING_get0_data(id);
  std::string hex;
  for (int i = 0; i < ASN1_STRING_length(id); ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

}  // namespace osm::inline v1::certificate
