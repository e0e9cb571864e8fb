// Resources for a gRPC library that is a proxy by itself (ADR 0065): a listener per name that a
// client dials, listeners of the server, and only fields that gRPC knows. gRPC refuses a resource
// with a field that it does not support, or ignores the field: docs/limitations.md has the list.
#pragma once

#include <vector>

#include "translate/class_view.hpp"

namespace osm::inline v1::translate {

// Inputs in any order; names may repeat. Only ports for gRPC libraries have any.
std::vector<InputPtr> grpc_cluster_inputs(const ClassView& view);
std::vector<InputPtr> grpc_listener_inputs(const ClassView& view);  // of clients and servers
std::vector<InputPtr> grpc_route_inputs(const ClassView& view);

// Adds the listeners of clients.
void add_grpc_client_listeners(const ClassView& view, std::vector<InputPtr>& inputs);

}  // namespace osm::inline v1::translate
