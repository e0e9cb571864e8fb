// Storage of the mesh's own CA: a directory (osm/certificate/directory_ca.hpp), a Kubernetes Secret
// (osm/kubernetes/cluster.hpp), etcd (osm/certificate/etcd_ca.hpp), or a store of the host's. The
// first process creates the CA, once. Every replica with the same store signs with the same root.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

// Stores one CA: a PEM text with a private key and its certificate. The certificate is a root, or
// is followed by its issuers in order, the root last.
class OSM_API CaStore {
 public:
  virtual ~CaStore() = default;

  // Name in errors: "Secret osm-system/osm-ca-bundle". Thread: any. Blocking: no.
  virtual std::string name() const = 0;

  // Result: nothing if there is no CA yet.
  // Failure: kStorage (unreadable, or readable by other users), kUnavailable (try again),
  // kInvalidCertificate; each with the remedy.
  // Thread: any but an event loop's. Blocking: until the store answers.
  virtual Result<std::optional<PrivateKey>> load() = 0;

  // Stores `pem` as the CA, unless there is one already, which is no failure: the creator reads the
  // stored CA by load(). All or nothing, also if the process is killed meanwhile.
  // Failure: as above. Thread, blocking: as above.
  virtual Status create(const PrivateKey& pem) = 0;
};

// A CA that the mesh trusts already, as a record outside of the store tells: osm::known_ca().
struct KnownCa {
  std::string bundle_pem{};  // its root; empty: no such CA is known
  std::string record{};      // the record's name, for errors
};

// The CA's store and its trust domain.
struct CaOptions {
  CaStore& store;  // used during the call only
  TrustDomain trust_domain;
  const Clock& clock;  // outlives the issuer
  KnownCa known{};
};

// Result: an issuer over the CA in the store. If the store is empty and no CA is known, a CA is
// created; all processes that race to create it get the same one.
// Failure: as CaStore's; kCertificateExpired; kNotFound: the store does not hold the known CA. The
// store is not changed then.
// Thread: any but an event loop's, any number of processes. Blocking: until the store answers.
OSM_API Result<std::unique_ptr<Issuer>> load_or_create_ca(const CaOptions& options);

// Imports an operator's CA (`pem` in the store's form) into an empty store. If the store holds this
// CA already, nothing happens.
// Failure: as CaStore's; kInvalidCertificate and kCertificateExpired for faults of `pem`, kNotFound
// if it is not the known CA (the store is not changed); kAlreadyExists: the store holds another CA,
// which stays.
// Thread: any but an event loop's, any number of processes. Blocking: until the store answers.
OSM_API Status import_ca(const CaOptions& options, const PrivateKey& pem);

}  // namespace osm::inline v1::certificate
