// The mesh's CA in a Secret, in the shape the original gives it: `ca.crt` and `private.key`, PEM.
#pragma once

#include <memory>
#include <string>

#include "kubernetes/client/api.hpp"
#include "osm/certificate/ca_store.hpp"

namespace osm::inline v1::kubernetes {

// Creation is the API server's: of replicas that race one creates, the others read. `api` outlives
// the store. The Secret may hold a root that was imported; a key that does not belong to the
// certificate is refused when the CA is loaded.
std::unique_ptr<certificate::CaStore> make_secret_ca_store(Api& api, std::string ns,
                                                           std::string name);

}  // namespace osm::inline v1::kubernetes
