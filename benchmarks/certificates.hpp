// The certificates of a measurement: one on-disk CA in a temporary directory, shared by the driver,
// which certifies the simulated proxies, and the server under measurement.
#pragma once

#include <memory>
#include <string>

#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/result.hpp"
#include "osm/runtime/system.hpp"
#include "osm/values/workload.hpp"

namespace osm::bench {

struct Credentials {
  std::string trust_bundle_pem, chain_pem, key_pem;
};

class BenchAuthority {
 public:
  // Loads the CA there, or makes it.
  static Result<std::unique_ptr<BenchAuthority>> load(const std::string& directory);

  // As a workload's proxy / as the control plane.
  Result<Credentials> proxy_credentials(const Workload& workload);
  Result<Credentials> controller_credentials();

 private:
  Result<Credentials> issue(const certificate::Subject& subject);

  SystemClock clock_;
  std::unique_ptr<certificate::Issuer> issuer_;
};

}  // namespace osm::bench
