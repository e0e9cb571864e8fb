// Objects of the mesh: read from its store, and written into the store behind it.
#pragma once

#include "osm/net/admin_api.hpp"
#include "osm/net/http.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::admin {

// All: Thread, blocking: as the admin API's.

// The objects of a kind, of one namespace or with one name, as they were written; with
// metadata.resourceVersion if the store has versions.
// Failure: kInvalidArgument, kUnknownKind, kNotFound (of a name), kUnavailable.
Result<net::Response> list_objects(const net::AdminApiOptions& options,
                                   const net::Request& request);

// Both: validates all objects of the body, and writes them one after the other if all are valid and
// it is no dry run. The answer has a result for each.
// Failure: kInvalidSyntax, kInvalidArgument, kTooLarge (the body).

// Creates or replaces. An object with metadata.resourceVersion replaces that version only.
Result<net::Response> apply_objects(const net::AdminApiOptions& options,
                                    const net::Request& request);
Result<net::Response> delete_objects(const net::AdminApiOptions& options,
                                     const net::Request& request);

}  // namespace osm::inline v1::admin
