// The mesh's CA on this machine's disk: <directory>/ca.pem, created once by the first process.
#pragma once

#include <memory>
#include <string>

#include "osm/certificate/ca_store.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

// Directory of the CA, and its trust domain.
struct DirectoryCaOptions {
  std::string directory;  // "<state-dir>/ca"; created with mode 0700 if absent
  TrustDomain trust_domain;
  const Clock& clock;  // outlives the issuer
};

// Result: the store of <directory>/ca.pem. The directory is created with mode 0700 if absent.
// Failure: kStorage, naming the path and what to do. Thread: any. Blocking: disk.
OSM_API Result<std::unique_ptr<CaStore>> open_directory_ca_store(const std::string& directory);

// Result: the CA in the directory. All processes that race to create it get the same one.
// Failure: kStorage (no space, unreadable, open to other users), kInvalidCertificate,
// kCertificateExpired. Each names the path and what to do, and nothing on disk changes.
// Thread: any, any number of processes. Blocking: disk.
OSM_API Result<std::unique_ptr<Issuer>> load_or_create_directory_ca(
    const DirectoryCaOptions& options);

}  // namespace osm::inline v1::certificate
