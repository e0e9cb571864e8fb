// The files of one machine of the mesh. A reader finds each file whole, the old one or the new one.
// For agents on machines; docs/linking.md names the library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {

// Names of all files that bootstrap(), join() and renew() write, keys first.
inline constexpr std::string_view kMachineFiles[] = {"sds_key.pem",
                                                     "workload_key.pem",
                                                     "sds_cert.pem",
                                                     "cacert.pem",
                                                     "validation_context_sds_secret.yaml",
                                                     "workload_cert.pem",
                                                     "workload_roots.pem",
                                                     "grpc_bootstrap.json",
                                                     "tls_certificate_sds_secret.yaml",
                                                     "bootstrap.yaml",
                                                     "hosts",
                                                     "intercept.sh"};

// The place of the files, and the owner of those that the proxy reads.
struct WriteOptions {
  std::string directory;                 // absolute; it exists
  std::optional<std::uint32_t> owner{};  // user and group; nullopt: this process's
};

// Writes the key of the proxy certificate, then `files` in their order (inject::vm_bootstrap()
// makes them). The directory and the files that root runs keep this process's owner, so that the
// proxy's user cannot replace them. Failure: kStorage (the directory or a file, with the remedy;
// the files before it are written), kInvalidArgument (a name with '/' or with '.' at its beginning;
// nothing is written). Thread: any, but not while another one has the effective user of a proxy.
// Blocking: on the files, and while another process changes them.
OSM_API Status write_files(const WriteOptions& options, const certificate::PrivateKey& key,
                           const std::vector<inject::BootstrapFile>& files);

}  // namespace osm::inline v1::machine
