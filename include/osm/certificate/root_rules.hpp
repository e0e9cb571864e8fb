// The Vault hosts, token files and Secrets that a MeshRootCertificate may name. The host allows
// each: an author of objects could otherwise have the mesh's credentials sent to a server of their
// choice, or files and Secrets read.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "osm/values/mesh_root_certificate.hpp"

namespace osm::inline v1 {

namespace root_rotation {
class Candidates;  // internal to the library
}

// The default allows no Vault, no token file and no Secret. A CA of the mesh's own whose key the
// host places, and cert-manager, need no rule. Refusals name osm-controller's flags as the remedy.
struct RootRules {
  // Each as a decoded object has it: lower case, without a dot at the end. Compared as text.
  std::vector<std::string> vault_hosts{};
  // The directory of the token files; empty: none. Symbolic links of both are followed first.
  std::string token_files_in{};
  // On Kubernetes, the namespace of the Secrets: the mesh's own. With it no token file is allowed.
  // Empty: no Secret is read.
  std::string secrets_of{};
};

// A MeshRootCertificate that the rules allow. Only RootRotation makes one, so a function that takes
// it opens nothing that is not allowed. Thread: any, concurrently. Blocking: no.
class AllowedRoot {
 public:
  // The object, of the trust domain that its CA signs for. A Secret of TresorProvider is of
  // RootRules::secrets_of, and left out where that is empty.
  const MeshRootCertificate& object() const { return object_; }

 private:
  friend class root_rotation::Candidates;
  explicit AllowedRoot(MeshRootCertificate object) : object_(std::move(object)) {}

  MeshRootCertificate object_;
};

}  // namespace osm::inline v1
