// The first certificate and the files of a machine, from the admin API of a controller. The
// machine's key is made in the calling process and sent nowhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::machine {

// The proxy of a machine, and the place of its files.
struct ProxyOptions {
  std::string directory;  // absolute; if it does not exist, it is made for all to enter (0755)
  // User that Envoy runs as. The proxy's files belong to it, as user and as group. nullopt: 1500
  // (inject::kProxyUid) in a process of root, else the effective user.
  std::optional<std::uint32_t> owner{};
  XdsVariant xds = XdsVariant::kDelta;  // variant of Envoy's streams
  bool grpc = false;                    // also files for gRPC libraries without Envoy
};

// The written files, and the certificate among them.
struct Bootstrapped {
  std::string directory;
  std::vector<std::string> files;  // names within the directory, in the order of writing
  std::string uuid;                // of the proxy
  std::string common_name;         // of its certificate
  // RFC 3339, as the controller says it: Envoy is served, and the certificate can be renewed.
  std::string served_until;
  std::string not_after;
};

// The machine, and the controller as the machine reaches it.
struct BootstrapOptions {
  WorkloadName machine;
  std::string controller;  // HOST:PORT of the ADS server
  ProxyOptions proxy;
};

// The requests to the admin API (daemons/README.md). The caller sends them as it likes; each
// returns the answer's JSON, or why there is none.
struct AdminCalls {
  // GET /v1/vm/subject with the machine's name and namespace.
  std::function<Result<std::string>()> subject;
  // POST /v1/vm/bootstrap with this body, JSON.
  std::function<Result<std::string>(const std::string& body)> bootstrap;
};

// Makes a key of the kind that the mesh uses, asks for its certificate, and writes the machine's
// files. An administrator calls it beside the controller, and copies the directory to the machine.
// Failure: those of `calls`; kInternal (an answer is of another version), kInvalidArgument (its
// names fit into no certificate request), kStorage (the directory cannot be made or written to, or
// this process cannot give files to the owner), kConflict (it has another machine's files, or other
// files of their names): no certificate is made. After the certificate: kStorage (a file),
// kInternal.
// Thread: any, one at a time for one directory. Blocking: until `calls` have returned, on the
// files, and while another process changes them.
OSM_API Result<Bootstrapped> bootstrap(const BootstrapOptions& options, const AdminCalls& calls);

}  // namespace osm::inline v1::machine
