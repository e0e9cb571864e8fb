// GET /v1/vm/subject, POST /v1/vm/bootstrap: the certificate and files with which a machine joins
// the mesh. Its key is made by whoever asks: it is not sent, and the controller never has it.
#pragma once

#include "osm/net/admin_api.hpp"

namespace osm::inline v1::admin {

// Whom the machine's request for a certificate must name, and the kind of key the mesh wants.
Result<net::Response> vm_subject(const net::AdminApiOptions& options, const net::Request& request);

// Certifies the request, which must be for this machine's proxy and nobody else, and remembers the
// certificate as expected.
Result<net::Response> bootstrap_vm(const net::AdminApiOptions& options,
                                   const net::Request& request);

}  // namespace osm::inline v1::admin
