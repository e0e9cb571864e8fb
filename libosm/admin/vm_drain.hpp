// POST /v1/vm/drain, GET /v1/vm/drained: machines that no client sends new requests to.
#pragma once

#include "osm/net/admin_api.hpp"

namespace osm::inline v1::admin {

// Drains a machine or, with the field "undo", takes it back. It is in effect here when the function
// returns; GET /v1/status of the VirtualMachine tells which proxies have acknowledged it.
// Failure: kNotFound (machines are not drained here; no such VirtualMachine); as DrainedMachines.
Result<net::Response> drain_vm(const net::AdminApiOptions& options, const net::Request& request);

// {"drained": 1 or 0, "controllers": 1}: of several controllers, the answers are added up.
Result<net::Response> vm_drained(const net::AdminApiOptions& options, const net::Request& request);

}  // namespace osm::inline v1::admin
