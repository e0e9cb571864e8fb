// The parts that `osm vm bootstrap` and `osm vm join` share: a machine's key, made here and sent
// nowhere, and what the controller makes for it, written as files.
#pragma once

#include <CLI/CLI.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "machine_files.hpp"
#include "osm/certificate/request.hpp"
#include "osm/result.hpp"

namespace osm::cli {

// The proxy whose files are written.
struct ProxyOptions {
  WriteOptions write;
  std::string xds = "delta";
  bool grpc = false;
};
// The options --owner, --xds and --grpc. Lifetime: `options` outlives `app`.
void add_proxy_options(CLI::App& app, ProxyOptions& options);
// Fills in the owner if none was given, and makes the directory absolute.
void complete(ProxyOptions& options);

// Makes the directory, a key of the kind that the mesh asks for, and a request for the machine's
// names. `subject`: the controller's answer. Failure: kInternal (the answer is of another version);
// kStorage, if the directory cannot be made or written to; kConflict, if it has another machine's
// files, or other files of their names.
Result<certificate::KeyAndRequest> prepare(const boost::json::value& subject,
                                           const std::string& directory);

// Writes the key and the files of the controller's answer. The directory itself and what root runs
// stay the caller's, so that the proxy's user cannot replace them. A file is there whole or not at
// all. Result: what was written. Failure: kStorage naming the file and the remedy.
Result<boost::json::value> write_bootstrap(const boost::json::value& answer,
                                           const certificate::PrivateKey& key,
                                           const WriteOptions& options);

// The next steps on the machine, for people. `written`: of write_bootstrap().
std::string next_steps(const boost::json::value& written);

}  // namespace osm::cli
