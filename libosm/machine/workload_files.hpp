// The certificate of a machine's workload in files, for gRPC libraries, which have no SDS.
// docs/adr/0065
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "machine/proxy_files.hpp"
#include "machine/renewal_client.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/certificate/request.hpp"
#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {

// Contents of workload_cert.pem, workload_key.pem and workload_roots.pem.
struct WorkloadFiles {
  certificate::PrivateKey key;
  std::string chain_pem;
  std::string roots_pem;
};

// The machine's files; members of missing ones are empty. Empty: it was bootstrapped without
// --grpc. Blocking: on the files.
std::optional<WorkloadFiles> read_workload_files(const std::string& directory);

// The present proxy certificate, and the controller's answer about it.
struct RenewalState {
  const ProxyFiles& files;
  const RenewalResponse& told;
  bool renewed = false;  // the proxy certificate is being replaced
  std::chrono::milliseconds timeout;
};

// The replacements of `held` that are due; empty members stay. A certificate is due if it is
// missing, past two thirds of its life or of another name, or if the proxy's was `renewed`. A new
// key is made here and sent nowhere.
// Failure: the controller's, or kUnavailable: it is of an older version. Blocking: up to `timeout`.
Result<WorkloadFiles> obtain_workload_files(const WorkloadFiles& held, const RenewalState& state,
                                            const Clock& clock);

// Writes them with the owner of the proxy's key, each whole or not at all. gRPC keeps what it has
// while a key is beside the certificate of another.
// Result: true if anything was written. Failure: kStorage.
Result<bool> write_workload_files(const std::string& directory, const ProxyFiles& files,
                                  const WorkloadFiles& fresh);

}  // namespace osm::inline v1::machine
