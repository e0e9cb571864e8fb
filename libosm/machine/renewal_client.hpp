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

// Keeps gRPC until the end of its scope, which is that of all calls of a check: inside the scope of
// AsProxyUser, so that gRPC's threads do not get root's rights back. With `alone` it then waits for
// them, up to a second: one of them may still have a channel, which it frees, and OpenSSL's state
// of that thread with it. The caller may be about to end the process.
class GrpcScope {
 public:
  // True if the process uses gRPC for nothing now. Only then will its threads end.
  static bool is_unused();

  explicit GrpcScope(bool alone = is_unused());
  ~GrpcScope();
  GrpcScope(const GrpcScope&) = delete;
  GrpcScope& operator=(const GrpcScope&) = delete;

 private:
  const bool alone_;
};

// One call on a connection of its own, within a GrpcScope. Nothing is sent to who is not the
// controller: its chain ends in the machine's trust bundle, and its only URI SAN is one that the
// bootstrap names. Failure: the controller's own words, or why it could not be asked. Blocking: up
// to the time-out.
Result<RenewalResponse> ask_controller(const ProxyFiles& files, const RenewalRequest& request,
                                       std::chrono::milliseconds timeout);

// The kind of key that the mesh's certificates have. Failure: kUnavailable, this version has it
// not.
Result<certificate::KeyParameters> key_parameters(const RenewalResponse& response);

// Asks to be taken out of its Services, and how far that is. All as ask_controller().
Result<DrainResponse> ask_to_drain(const ProxyFiles& files, std::chrono::milliseconds timeout);

}  // namespace osm::inline v1::machine
