// The API with which machines join the mesh by a token. Serve it by HTTPS, with a certificate of
// the mesh for join_subject(); the token has the roots that verify it. docs/vm.md is for its users.
#pragma once

#include <string>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/net/http.hpp"

namespace osm::inline v1::net {

// POST /v1/join/subject and POST /v1/join, for callers with a token that is in
// `options.join_tokens`, which is not null. A token is for one machine and for one use.
// Thread, blocking: as make_admin_api(). Lifetime: what `options` borrows outlives the handler.
OSM_API Handler make_join_api(const AdminApiOptions& options);

// Subject of the certificate of a server of that API. `ns`: the control plane's namespace.
OSM_API certificate::Subject join_subject(const TrustDomain& domain, const std::string& ns);

}  // namespace osm::inline v1::net
