// Mutual TLS for the ADS server. It reads the certificate from memory at every handshake, so a
// renewal needs neither a restart nor a file.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>

#include "osm/certificate/manager.hpp"

namespace osm::inline v1::ads {

// Clients must present a certificate that the trust bundle verifies. TLS 1.2 at least. Both
// functions are called at every handshake, on any thread.
// Lifetime: must outlive the server; gRPC does not ensure that.
std::shared_ptr<grpc::ServerCredentials> mutual_tls(
    std::function<certificate::CertificatePtr()> server_certificate,
    std::function<std::string()> trust_bundle_pem);

}  // namespace osm::inline v1::ads
