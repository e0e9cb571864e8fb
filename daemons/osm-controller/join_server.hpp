// The server at --join-address: machines join the mesh there by a token.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "options.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/net/http_server.hpp"
#include "osm/result.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::controller {

class JoinServer {
 public:
  // Serves nobody if there is no --join-address. Fills in the members of `api` about joining.
  // Lifetime: all references outlive the server. Failure: the CA's; kInvalidArgument
  // (it cannot listen).
  // Blocking: until the server's certificate is issued.
  static Result<std::unique_ptr<JoinServer>> start(const Options& options, OwnRuntime& runtime,
                                                   certificate::Manager& manager,
                                                   const TrustDomain& domain,
                                                   net::AdminApiOptions& api);

  // Lets running requests finish. Blocking: up to `deadline`.
  Status stop(std::chrono::milliseconds deadline);

 private:
  explicit JoinServer(net::Lanes& lanes) : asking_(lanes, {.name = "joins", .bound = 2}) {}

  net::Lane asking_;  // bounds the certificates that are made at once
  std::unique_ptr<certificate::KeptCertificate> certificate_;
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace osm::controller
