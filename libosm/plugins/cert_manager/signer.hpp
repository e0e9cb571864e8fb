// Which of a few certificates signed another.
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

// Of the first certificate in `chain_pem`: looked for behind it, then in `roots_pem`.
// Failure: kInvalidCertificate: nothing that is a certificate, or none that signed it.
// Thread: any. Blocking: no.
Result<Signer> find_signer(std::string_view chain_pem, std::string_view roots_pem);

}  // namespace osm::inline v1::cert_manager
