// The chain of the CA that signs, as a mount of Vault's PKI engine tells it.
#pragma once

#include <string>
#include <string_view>

#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::vault {

struct CaChain {
  std::string fingerprint;        // SHA-256 of the one that signs, hex
  std::string intermediates_pem;  // the one that signs first, without roots: what follows a leaf
  std::string roots_pem;
  WallTime not_after;  // of the one that ends first

  friend bool operator==(const CaChain&, const CaChain&) = default;
};

// `pem`: the certificate that signs, then those above it in any order, one of them a root.
// Failure: kInvalidCertificate, saying what is wrong. Thread: any. Blocking: no.
Result<CaChain> read_ca_chain(std::string_view pem);

// SHA-256 of the only certificate in `pem`, hex. Failure, thread, blocking: as above.
Result<std::string> fingerprint_of(std::string_view pem);

}  // namespace osm::inline v1::vault
