// The check of a MeshRootCertificate before its CA is opened.
#pragma once

#include "osm/certificate/root_rules.hpp"
#include "osm/result.hpp"
#include "osm/values/mesh_root_certificate.hpp"

namespace osm::inline v1::root_rotation {

// Result: the object. The Secret of a CA of the mesh's own is of `secrets_of`, and left out if the
// rules allow none: where there are no Secrets, the host keeps the key.
// Failure: kPermissionDenied, kInvalidArgument (a Vault's Secret); each with the remedy.
// Thread: any. Blocking: for the file system.
Result<MeshRootCertificate> check_root(const RootRules& rules, MeshRootCertificate root);

}  // namespace osm::inline v1::root_rotation
