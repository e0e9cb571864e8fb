// Errors from an API server's Status objects.
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/net/http.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// The error of a Status object. `what` is the attempted operation: "create Secret
// osm-system/osm-ca-bundle". The text is cut at 2 KiB.
Error error_of_status(const boost::json::object& status, std::string_view what);

// The error of a response with a status of 300 or more; its body may be a Status, or anything.
OSM_API Error error_of_response(const net::Response& response, std::string_view what);

}  // namespace osm::inline v1::kubernetes
