// A P-256 key to its two encodings and back. OpenSSL 3.0 encodes and decodes a key by asking every
// provider for what it offers: a sixth of a millisecond each time, more than signing and verifying
// take together. These two have one form each (RFC 5480, RFC 5915), so nobody needs to be asked.
#pragma once

#include <optional>
#include <span>

#include "base/openssl.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate::p256 {

using Bytes = std::span<const unsigned char>;

bool is_p256(const EVP_PKEY& key);

// Puts the public half of `key` into a certificate's or a request's SubjectPublicKeyInfo.
// Precondition: is_p256(key).
Status set_public_key(X509_PUBKEY& info, EVP_PKEY& key);

// The key of a SubjectPublicKeyInfo, its point checked to lie on the curve; null otherwise. Nothing
// when it is a key of another kind, or a P-256 key in another form.
std::optional<openssl::Key> public_key(Bytes info);

// PKCS#8. Precondition: is_p256(key). Failure: kInternal, also when it has no private half.
Result<PrivateKey> to_pem(const EVP_PKEY& key);

}  // namespace osm::inline v1::certificate::p256
