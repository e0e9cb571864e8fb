// POST /v1/vm/bootstrap: the certificate and files with which a machine joins the mesh.
#pragma once

#include "admin_api.hpp"

namespace osm::controller {

// Issues the machine's proxy certificate and remembers it as expected. The key is in the answer and
// nowhere else afterwards: it is the machine's, and the controller has no use for it.
net::Response bootstrap_vm(const AdminApiOptions& options, const net::Request& request);

}  // namespace osm::controller
