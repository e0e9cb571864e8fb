// A request as it goes over the wire.
#pragma once

#include <string>

#include "osm/net/http_client.hpp"

namespace osm::inline v1::net {

// Request line and headers, for the server at `address`. Failure: kInvalidArgument for what would
// say something else to the server than to its caller: line breaks, headers that frame the body.
Result<std::string> request_head(const HttpRequest& request, const Address& address);

// Whether it may be sent again when nobody knows whether it arrived (RFC 9110, section 9.2.2).
bool is_idempotent(const std::string& method);

}  // namespace osm::inline v1::net
