// A machine's key, made here and sent nowhere, and what the controller makes for it: written as
// files, each atomically, with its mode and owner.
#pragma once

#include <sys/types.h>

#include <string>

#include "admin_client.hpp"
#include "machine_files.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::cli {

// The machine, its controller and its variant of xDS.
struct BootstrapOptions {
  WorkloadName machine;
  std::string controller;  // "HOST:PORT"
  uid_t proxy_uid = 0;
  std::string xds;
};

// Makes a key, has the controller certify it, and writes everything. The directory itself and what
// root runs stay the caller's, so that the proxy's user cannot replace them. A file is there whole
// or not at all. Failure: the controller's; kStorage naming the file and the remedy.
// Result: what to do next, for people.
Result<std::string> bootstrap_machine(const AdminClient& client, const BootstrapOptions& options,
                                      const WriteOptions& write);

}  // namespace osm::cli
