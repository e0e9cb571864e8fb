// Mutual TLS for the ADS server. It reads the certificate from memory at every handshake, so a
// renewal needs neither a restart nor a file.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>

#include "osm/certificate/manager.hpp"

namespace osm::inline v1::ads {

// Clients must present a certificate that the trust bundle verifies. TLS 1.2 at least.
// Lifetime: must outlive the server; gRPC does not ensure that.
std::shared_ptr<grpc::ServerCredentials> mutual_tls(
    std::function<certificate::CertificatePtr()> server_certificate);

}  // namespace osm::inline v1::ads
