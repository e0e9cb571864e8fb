// Roots of a mesh on Kubernetes, declared as objects.
#pragma once

#include <string>

#include "admin_client.hpp"
#include "osm/result.hpp"

namespace osm::cli {

// Declares MeshRootCertificate `name` with the role active, gives the daemons its Secret
// `<name>-ca`, and makes the roots that were active before inactive. Does the rest if a part is
// there. An empty trust domain is the mesh's. Failure: the API server's; kInvalidField.
Status declare_root(const MeshFlags& mesh, const std::string& name,
                    const std::string& trust_domain);

}  // namespace osm::cli
