// An issuer that signs in this process with a CA's key ("Tresor" in OSM). Its creator decides where
// the key is stored (a directory, a Kubernetes Secret, etcd).
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "osm/certificate/issuer.hpp"
#include "osm/clock.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

// Clocks of the mesh's machines differ; a new certificate must not start in the future.
inline constexpr std::chrono::minutes kClockSkew{10};

// A new root with its key, as one secret PEM text: ECDSA P-256, ten years.
Result<PrivateKey> make_root_pem(const Clock& clock);

// Result: an issuer over a PEM text with one private key and its certificate. The certificate is a
// root, or is followed by its issuers in order, the root last.
// Failure: kInvalidCertificate (not PEM, key and certificate do not match, no chain of CAs up to a
// root), kCertificateExpired. Each names the certificate and what to do.
// Lifetime: `clock` outlives the issuer. The caller erases `pem`.
Result<std::unique_ptr<Issuer>> make_local_issuer(std::string_view pem, TrustDomain domain,
                                                  const Clock& clock);

}  // namespace osm::inline v1::certificate
