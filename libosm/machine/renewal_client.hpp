// Asks the controller's ADS port about this machine's certificate: gRPC over mutual TLS, in which
// the controller proves by its certificate who it is. docs/adr/0028
#pragma once

#include <chrono>

#include "machine/proxy_files.hpp"
#include "openservicemesh/certificate/v1/proxy_certificate.pb.h"
#include "osm/certificate/request.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {

using RenewalRequest = openservicemesh::certificate::v1::RenewCertificateRequest;
using RenewalResponse = openservicemesh::certificate::v1::RenewCertificateResponse;

using DrainResponse = openservicemesh::certificate::v1::DrainMachineResponse;

// One call on a connection of its own. Nothing is sent to who is not the controller: its chain ends
// in the machine's trust bundle, and its only URI SAN is one that the bootstrap names.
// Failure: the controller's own words, or why it could not be asked. Blocking: up to the time-out.
Result<RenewalResponse> ask_controller(const ProxyFiles& files, const RenewalRequest& request,
                                       std::chrono::milliseconds timeout);

// The kind of key that the mesh's certificates have. Failure: kUnavailable, this version has it
// not.
Result<certificate::KeyParameters> key_parameters(const RenewalResponse& response);

// Asks to be taken out of its Services, and how far that is. All as ask_controller().
Result<DrainResponse> ask_to_drain(const ProxyFiles& files, std::chrono::milliseconds timeout);

}  // namespace osm::inline v1::machine
