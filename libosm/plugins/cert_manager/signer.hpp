// Finds the certificate that signed another one.
#pragma once

#include <string>
#include <string_view>

#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::cert_manager {

struct Signer {
  std::string fingerprint;  // SHA-256, hex
  WallTime not_after;
};

// The signer of the first certificate in `chain_pem`, found behind it or in `roots_pem`.
// Failure: kInvalidCertificate: no certificate, or no signer found.
// Thread: any. Blocking: no.
Result<Signer> find_signer(std::string_view chain_pem, std::string_view roots_pem);

}  // namespace osm::inline v1::cert_manager
