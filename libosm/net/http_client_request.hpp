// The wire form of a request.
#pragma once

#include <string>

#include "osm/net/http_client.hpp"

namespace osm::inline v1::net {

// Request line and headers for the server at `address`. Failure: kInvalidArgument for input that
// the server would read differently than its caller: line breaks, headers that frame the body.
Result<std::string> request_head(const HttpRequest& request, const Address& address);

// True if the request may be sent again when it is unknown if it arrived (RFC 9110, section 9.2.2).
bool is_idempotent(const std::string& method);

}  // namespace osm::inline v1::net
