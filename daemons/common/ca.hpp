// The CA of the mesh, as the flags say.
#pragma once

#include <memory>
#include <string>

#include "ca_options.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/ids.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/result.hpp"
#include "osm/runtime/asio_executor.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/values/mesh_root_certificate.hpp"

namespace osm::daemon {

// All outlive the issuer.
struct LoadCaOptions {
  const CaOptions& options;
  TrustDomain trust_domain;
  const std::string& osm_namespace;
  kubernetes::Cluster* cluster = nullptr;  // where the mesh is one of Kubernetes
  std::string directory{};                 // where one machine keeps its CA; empty: it does not
  net::AsioExecutor& io;
  Runtime runtime;
};

// Failure: as the store's or the issuer's, with the remedy; kInvalidArgument: a store that there is
// none of here. Thread: any but an event loop's. Blocking: until the CA answers.
Result<std::unique_ptr<certificate::Issuer>> load_ca(const LoadCaOptions& with);

// The CA that a MeshRootCertificate describes, of the object's trust domain; `directory` is its
// own. Failure, thread, blocking: as above.
Result<std::shared_ptr<certificate::Issuer>> make_root(LoadCaOptions with,
                                                       const MeshRootCertificate& described);

}  // namespace osm::daemon
