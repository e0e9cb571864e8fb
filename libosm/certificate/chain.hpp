// Verification of certificate chains, with OpenSSL's reasons and with texts for people.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/openssl.hpp"
#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate::x509 {

// Result: the chain from `leaf` to one of `roots`, in order; keys and signatures of 112 bits at
// least.
// Failure: kInvalidCertificate with OpenSSL's reason.
Result<std::vector<openssl::X509Handle>> verified_chain(
    X509& leaf, std::span<const openssl::X509Handle> between,
    std::span<const openssl::X509Handle> roots, WallTime now);

// Checks that `chain` is a CA's: the signing certificate first, each signed by the next, the root
// last, all of them valid CAs with sufficient path length. Precondition: not empty.
// Failure: kInvalidCertificate, kCertificateExpired: the certificate, the reason, and what to do.
Status check_ca_chain(std::span<const openssl::X509Handle> chain, WallTime now);

}  // namespace osm::inline v1::certificate::x509
