// The limit of issuing: OpenSSL making a key and a bare certificate over it, as little as a CA can
// do.
#pragma once

#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <memory>

#include "osm/values/mesh_config.hpp"

namespace osm::bench {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// P-256 or RSA of 2048 bits.
inline Key new_key(KeyType type) {
  return {type == KeyType::kRsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256"), EVP_PKEY_free};
}

// Result: whether it succeeded.
inline bool openssl_alone(KeyType type, EVP_PKEY& ca_key) {
  const Key key = new_key(type);
  const std::unique_ptr<X509, decltype(&X509_free)> leaf(X509_new(), X509_free);
  return key && leaf && X509_gmtime_adj(X509_getm_notBefore(leaf.get()), 0) &&
         X509_gmtime_adj(X509_getm_notAfter(leaf.get()), 48L * 3600) &&
         ASN1_INTEGER_set(X509_get_serialNumber(leaf.get()), 1) == 1 &&
         X509_set_pubkey(leaf.get(), key.get()) == 1 &&
         X509_sign(leaf.get(), &ca_key, EVP_sha256()) > 0;
}

}  // namespace osm::bench
