// The measured xDS server, in a process of its own: either libosm or a bare gRPC server that
// writes recorded bytes and knows nothing. serve() runs it under the driver's commands.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "osm/result.hpp"
#include "synthetic_mesh.hpp"

namespace osm::bench {

class MeasuredServer {
 public:
  virtual ~MeasuredServer() = default;
  // "127.0.0.1:PORT"
  virtual std::string address() const = 0;
  virtual Status apply(Change change) = 0;
  // Counters and gauges by "name" or "name{label=value}"; "classes": of proxies, distinct.
  virtual std::map<std::string, double> metrics() const = 0;
};

// Both read the CA from `ca_directory`, where the driver made it.
Result<std::unique_ptr<MeasuredServer>> start_osm_server(const MeshSize& size,
                                                         const std::string& ca_directory);
// Answers the first request of every type with the bytes of `<recordings>/<SDS|CDS|...>`.
Result<std::unique_ptr<MeasuredServer>> start_bare_server(const std::string& ca_directory,
                                                          const std::string& recordings);

// Prints the server's address, then answers the commands "status" and "change <kind>" on standard
// input, one line of JSON each, until its end.
void serve(MeasuredServer& server);

}  // namespace osm::bench
