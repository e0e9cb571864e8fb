// Vault as the mesh's CA, as flags or a MeshRootCertificate describe it.
#pragma once

#include <memory>

#include "ca.hpp"
#include "osm/certificate/vault.hpp"

namespace osm::daemon {

// `ca_pem`: what Vault's certificate is verified with; none: the system's roots.
// A token in a Secret of the mesh's namespace is read through the API, again when it is refused.
// Failure: as vault::make_vault_issuer()'s; kInvalidArgument for a Secret elsewhere.
// Thread: any but an event loop's. Blocking: until Vault has answered.
Result<std::shared_ptr<certificate::Issuer>> make_vault_ca(const LoadCaOptions& with,
                                                           const VaultProvider& described,
                                                           vault::Source ca_pem);

}  // namespace osm::daemon
