// The CA of the mesh, as the flags say.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "mesh_options.hpp"
#include "osm/certificate/etcd_ca.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/certificate/root_rules.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/backend.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::daemon {

// The etcd of --ca-store etcd, with the CA's key.
etcd::CaStoreOptions etcd_of(const CaOptions& options, OwnRuntime& runtime);

// All references outlive the issuer.
struct LoadCaOptions {
  const MeshOptions& options;
  OwnRuntime& runtime;
  const Backend& backend;        // a CA that its record knows is loaded and never created
  kubernetes::Cluster* cluster;  // null: the mesh is not on Kubernetes
};

// Failure: as the store's, the record's or the issuer's, with the remedy; kInvalidArgument: a store
// that there is none of here. Thread: any but an event loop's. Blocking: until the CA answers.
Result<std::shared_ptr<certificate::Issuer>> load_ca(const LoadCaOptions& with);

// The Vault hosts, token files and Secrets that a MeshRootCertificate may name, as the flags say.
RootRules root_rules(const LoadCaOptions& with);

// The CA of a MeshRootCertificate, of the object's trust domain.
// Failure, thread, blocking: as above.
Result<std::shared_ptr<certificate::Issuer>> open_root(const LoadCaOptions& with,
                                                       const AllowedRoot& root);

// The problem of a CA that does not sign: Issuer::health(). Thread: any. Blocking: no.
std::optional<Problem> problem_of(const certificate::Issuer& issuer);

}  // namespace osm::daemon
