// Which CA key signed a certificate.
#pragma once

#include <string>

namespace osm::inline v1::certificate {

// The authorityKeyIdentifier of the first certificate in a PEM text, hex; "" when it has none, or
// cannot be read. Thread: any.
std::string issuer_key_id(const std::string& chain_pem);

}  // namespace osm::inline v1::certificate
