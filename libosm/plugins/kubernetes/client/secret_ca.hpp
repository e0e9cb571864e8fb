// The mesh's CA in a Secret, in the original's form: `ca.crt` and `private.key`, PEM.
#pragma once

#include <memory>
#include <string>

#include "kubernetes/client/api.hpp"
#include "osm/certificate/ca_store.hpp"

namespace osm::inline v1::kubernetes {

// The API server decides a race: one replica creates the Secret, the others read it. `api` outlives
// the store. The Secret may hold an imported root; a key that does not match the certificate is
// refused when the CA is loaded.
std::unique_ptr<certificate::CaStore> make_secret_ca_store(Api& api, std::string ns,
                                                           std::string name);

}  // namespace osm::inline v1::kubernetes
