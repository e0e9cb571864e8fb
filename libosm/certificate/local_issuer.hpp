// An issuer that signs in this process with a root key it holds ("Tresor" in OSM's words); where
// the key is kept (a directory; later a Kubernetes Secret, etcd) is its creator's business.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "certificate/issuer.hpp"
#include "osm/clock.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::certificate {

// Clocks of the mesh's machines differ; a fresh certificate must not be from the future.
inline constexpr std::chrono::minutes kClockSkew{10};

// A new root with its key, as one PEM text (which is secret): ECDSA P-256, ten years.
Result<PrivateKey> make_root_pem(const Clock& clock);

// Result: an issuer over a PEM text that holds one private key and one root certificate.
// Failure: kInvalidCertificate (not PEM, key and certificate do not belong together, not a
// self-signed CA, not yet valid), kCertificateExpired.
// Lifetime: `clock` outlives the issuer. The caller erases `root_pem`.
Result<std::unique_ptr<Issuer>> make_local_issuer(std::string_view root_pem, TrustDomain domain,
                                                  const Clock& clock);

}  // namespace osm::certificate
