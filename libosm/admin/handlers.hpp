// Handlers of the admin API; routes.cpp has their paths. Thread, blocking: as make_admin_api().
#pragma once

#include "osm/net/admin_api.hpp"
#include "osm/net/http.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::admin {

using RouteHandler = Result<net::Response>(const net::AdminApiOptions& options,
                                           const net::Request& request);

RouteHandler version, list_proxies, config_dump, check_policy, list_problems, list_providers,
    object_status, list_certificates, rotate, list_denied, list_roots;

// Every policy of the mesh; one service, and one identity, by the parameter "name". Of a proxy, by
// "namespace" and "uuid", the services of its workload.
// Failure: kInvalidArgument, kNotFound, kNotReady.
RouteHandler list_policies, find_service, find_identity, list_proxy_services;

// GET tells what the end of a root's trust cuts; POST ends it.
RouteHandler distrust;

// Parameters: source, destination, and optionally port, method, path, host, certificate and
// headers (lines of "name: value"), as in CallQuestion.
RouteHandler explain_call;

// The graph of permitted calls. Source and destination are accounts "shop/web", or words for what
// is no account. Failure: kNotReady.
RouteHandler graph;

// The objects of a kind, of one namespace or with one name, as they were written; with
// metadata.resourceVersion if the store has versions.
// Failure: kInvalidArgument, kUnknownKind, kNotFound (of a name), kUnavailable.
RouteHandler list_objects;

// Both: validates all objects of the body, and writes them one after the other if all are valid and
// it is no dry run. The answer has a result for each. To apply creates or replaces; an object with
// metadata.resourceVersion replaces that version only.
// Failure: kInvalidSyntax, kInvalidArgument, kTooLarge (the body).
RouteHandler apply_objects, delete_objects;

// The subject and the kind of key that a machine's request for a certificate must have.
RouteHandler vm_subject;

// Certifies the request, which must be for this machine's proxy and nobody else, and remembers the
// certificate as expected.
RouteHandler bootstrap_vm;

// A token with which one machine joins the mesh.
// Failure: kNotFound (machines do not join by token here; no such machine); as JoinTokens::make().
RouteHandler vm_token;

// Drains a machine or, with the field "undo", takes it back. It is in effect here when the function
// returns; GET /v1/status of the VirtualMachine tells which proxies have acknowledged it.
// Failure: kNotFound (machines are not drained here; no such VirtualMachine); as DrainedMachines.
RouteHandler drain_vm;

// Answers 1 if this controller has the machine as drained, else 0; several controllers add up.
RouteHandler vm_drained;

}  // namespace osm::inline v1::admin
