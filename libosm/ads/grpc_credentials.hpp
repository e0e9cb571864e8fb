// Mutual TLS for the ADS server, with the certificate read from memory at every handshake: a
// rotation needs no restart and no file.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>

#include "osm/certificate/manager.hpp"

namespace osm::inline v1::ads {

// Clients must present a certificate that the trust bundle verifies. TLS 1.2 at least.
// Lifetime: must outlive the server, which gRPC does not see to.
std::shared_ptr<grpc::ServerCredentials> mutual_tls(
    std::function<certificate::CertificatePtr()> server_certificate);

}  // namespace osm::inline v1::ads
