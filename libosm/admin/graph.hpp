// The graph of permitted calls, as the policies say.
#pragma once

#include "osm/net/admin_api.hpp"
#include "osm/net/http.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::admin {

// {"mode", "edges": [{"source", "destination", "encryption", "object", "detail"}]}. Source and
// destination are accounts "shop/web", or words for what is no account. Failure: kNotReady.
Result<net::Response> graph(const net::AdminApiOptions& options, const net::Request& request);

}  // namespace osm::inline v1::admin
