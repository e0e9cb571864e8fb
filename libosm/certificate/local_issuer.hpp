// An issuer that signs in this process with a CA's key that it holds ("Tresor" in OSM's words);
// where the key is kept (a directory, a Kubernetes Secret, etcd) is its creator's business.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "osm/certificate/issuer.hpp"
#include "osm/clock.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

// Clocks of the mesh's machines differ; a fresh certificate must not be from the future.
inline constexpr std::chrono::minutes kClockSkew{10};

// A new root with its key, as one PEM text (which is secret): ECDSA P-256, ten years.
Result<PrivateKey> make_root_pem(const Clock& clock);

// Result: an issuer over a PEM text that holds one private key and its certificate, which is a root
// or is followed by its issuers in their order, the root last.
// Failure: kInvalidCertificate (not PEM, key and certificate do not belong together, not a chain of
// CAs up to a root), kCertificateExpired; each says which certificate and what to do.
// Lifetime: `clock` outlives the issuer. The caller erases `pem`.
Result<std::unique_ptr<Issuer>> make_local_issuer(std::string_view pem, TrustDomain domain,
                                                  const Clock& clock);

}  // namespace osm::inline v1::certificate
