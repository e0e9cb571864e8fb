// What proxies of the mesh accept as proof of a peer's key: what BoringSSL does by itself but for
// SHA-1, and Ed25519, which it does not. The same for every kind of key the mesh is configured to
// make, so that a change of it cuts off no certificate that is in use.
#pragma once

#include <array>
#include <string_view>

namespace osm::inline v1::model {

// Names of TLS 1.3, which are Envoy's; the preferred first.
inline constexpr std::array<std::string_view, 9> kSignatureAlgorithms{
    "ecdsa_secp256r1_sha256", "ed25519",
    "rsa_pss_rsae_sha256",    "rsa_pkcs1_sha256",
    "ecdsa_secp384r1_sha384", "rsa_pss_rsae_sha384",
    "rsa_pkcs1_sha384",       "rsa_pss_rsae_sha512",
    "rsa_pkcs1_sha512"};

}  // namespace osm::inline v1::model
