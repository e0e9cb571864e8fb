// The chain of the signing CA, as a mount of Vault's PKI engine returns it.
#pragma once

#include <string>
#include <string_view>

#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::vault {

struct CaChain {
  std::string fingerprint;        // SHA-256 of the signing certificate, hex
  std::string intermediates_pem;  // signing certificate first, without roots: follows a leaf
  std::string roots_pem;
  WallTime not_after;  // earliest end in the chain

  friend bool operator==(const CaChain&, const CaChain&) = default;
};

// `pem`: the signing certificate, then those above it in any order, one of them a root.
// Failure: kInvalidCertificate, with the reason. Thread: any. Blocking: no.
Result<CaChain> read_ca_chain(std::string_view pem);

// SHA-256 of the only certificate in `pem`, hex. Failure, thread, blocking: as above.
Result<std::string> fingerprint_of(std::string_view pem);

}  // namespace osm::inline v1::vault
