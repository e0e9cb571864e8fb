// Chains of certificates: whether they hold together, as OpenSSL and as people see it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "certificate/openssl.hpp"
#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate::x509 {

// Result: from `leaf` to one of `roots`, in their order; keys and signatures of 112 bits at least.
// Failure: kInvalidCertificate with OpenSSL's reason.
Result<std::vector<openssl::X509Handle>> verified_chain(
    X509& leaf, std::span<const openssl::X509Handle> between,
    std::span<const openssl::X509Handle> roots, WallTime now);

// Whether `chain` is a CA's: the one that signs first, each signed by the next, the root last, all
// of them valid CAs with room for those below. Precondition: not empty.
// Failure: kInvalidCertificate, kCertificateExpired: which one, why, and what to do.
Status check_ca_chain(std::span<const openssl::X509Handle> chain, WallTime now);

}  // namespace osm::inline v1::certificate::x509
