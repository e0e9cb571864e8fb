// The Vault hosts, token files and Secrets that a MeshRootCertificate may name. The host allows
// each: an author of objects could otherwise have the mesh's credentials sent to a server of their
// choice, or files and Secrets read.
#pragma once

#include <string>
#include <vector>

namespace osm::inline v1 {

// The default allows no Vault, no token file and no Secret. It leaves cert-manager, and a CA of the
// mesh's own where the host keeps it.
struct RootRules {
  // Each as a decoded object has it: lower case, without a dot at the end. Compared as text.
  std::vector<std::string> vault_hosts{};
  // The directory of the token files; empty: none. Symbolic links of both are followed first.
  std::string token_files_in{};
  // On Kubernetes, the namespace of the Secrets: the mesh's own. With it no token file is allowed.
  // Empty: no Secret is read.
  std::string secrets_of{};
};

}  // namespace osm::inline v1
