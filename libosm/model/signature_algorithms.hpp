// Signature algorithms that proxies accept from peers: BoringSSL's default without SHA-1, plus
// Ed25519. The list is equal for every configured kind of key, so a change of that setting breaks
// no certificate in use.
#pragma once

#include <array>
#include <string_view>

namespace osm::inline v1::model {

// Names as in TLS 1.3 and Envoy; the preferred one first.
inline constexpr std::array<std::string_view, 9> kSignatureAlgorithms{
    "ecdsa_secp256r1_sha256", "ed25519",
    "rsa_pss_rsae_sha256",    "rsa_pkcs1_sha256",
    "ecdsa_secp384r1_sha384", "rsa_pss_rsae_sha384",
    "rsa_pkcs1_sha384",       "rsa_pss_rsae_sha512",
    "rsa_pkcs1_sha512"};

}  // namespace osm::inline v1::model
