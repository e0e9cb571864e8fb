// Where the mesh's own CA is kept: a directory (osm/certificate/directory_ca.hpp), a Kubernetes
// Secret (osm/kubernetes/cluster.hpp), etcd (osm/certificate/etcd_ca.hpp), or a store of the
// host's. It is created once, by whoever comes first, and every replica that starts with the same
// store signs with the same root.
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

// One place for one CA: a PEM text with a private key and its certificate, which is a root or is
// followed by its issuers in their order, the root last.
class OSM_API CaStore {
 public:
  virtual ~CaStore() = default;

  // What errors call it: "Secret osm-system/osm-ca-bundle". Thread: any. Blocking: no.
  virtual std::string name() const = 0;

  // Result: nothing when there is no CA yet. Failure: kStorage (unreadable, or readable by who must
  // not), kUnavailable (try again), kInvalidCertificate; each with the remedy.
  // Thread: any but an event loop's. Blocking: until the store answers.
  virtual Result<std::optional<PrivateKey>> load() = 0;

  // Makes `pem` the CA unless there is one already, which is no failure: whoever created asks
  // load() what it became. All or nothing, also for a process that is killed meanwhile.
  // Failure: as above. Thread, blocking: as above.
  virtual Status create(const PrivateKey& pem) = 0;
};

// What the CA signs for.
struct CaOptions {
  CaStore& store;  // used during the call only
  TrustDomain trust_domain;
  const Clock& clock;  // outlives the issuer
};

// Result: an issuer over the CA in the store, which is created when there is none; all processes
// that race to create it get the same one. Failure: as CaStore's; kCertificateExpired.
// Thread: any but an event loop's, any number of processes. Blocking: until the store answers.
OSM_API Result<std::unique_ptr<Issuer>> load_or_create_ca(const CaOptions& options);

// Makes an operator's CA, `pem` as a store keeps it, the one of an empty store; nothing to do where
// the store holds it already.
// Failure: as CaStore's; kInvalidCertificate, kCertificateExpired: what is wrong with `pem`, and
// the store is not touched; kAlreadyExists: the store holds another CA, which stays. Thread: any
// but an event loop's, any number of processes. Blocking: until the store answers.
OSM_API Status import_ca(CaStore& store, const PrivateKey& pem, const Clock& clock);

}  // namespace osm::inline v1::certificate
