// The ADS server: xDS v3 over mutual TLS gRPC. Meets the catalog only through the snapshot cell.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/snapshot_cell.hpp"
#include "model/mesh_snapshot.hpp"
#include "model/secret_source.hpp"
#include "osm/clock.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/metrics.hpp"
#include "osm/proxy.hpp"
#include "osm/result.hpp"

namespace osm::ads {

struct AdsServerOptions {
  std::string address = "0.0.0.0:15128";  // port 0: the kernel's choice, see address()
  TrustDomain trust_domain{"cluster.local"};
  std::chrono::milliseconds unknown_workload_wait{5000};
  // The server's own certificate and the roots for its clients, read at every handshake.
  std::function<certificate::CertificatePtr()> server_certificate;
};

// What the server lives on. All outlive it.
struct AdsServerDependencies {
  Executor& executor;  // sessions run on one strand of it, encoding on the rest
  const Clock& clock;
  Rng& rng;
  LogSink& log;
  MetricsSink& metrics;
  SnapshotCell<model::MeshSnapshot>& snapshots;
  model::SecretSource& secrets;
  ProxyRegistry& registry;
};

class AdsServer {
 public:
  virtual ~AdsServer() = default;  // shutdown(), with a second's grace

  // Failure: kInvalidArgument (address), kUnavailable (port taken). Blocking: briefly.
  static Result<std::unique_ptr<AdsServer>> start(const AdsServerOptions& options,
                                                  const AdsServerDependencies& dependencies);

  // "HOST:PORT" with the real port.
  virtual std::string address() const = 0;

  // Connected proxies, ordered by workload. Thread: any but the executor's. Blocking: briefly.
  virtual std::vector<Proxy> list_proxies() const = 0;

  // What a proxy was sent and what it acknowledged, as JSON of envoy.admin.v3.ConfigDump; secrets
  // by fingerprint only. `name`: UUID, "<namespace>/<workload>" or a workload name that is unique.
  // Failure: kNotFound, kInvalidArgument (ambiguous). Thread: any but the executor's.
  virtual Result<std::string> config_dump(const std::string& name) const = 0;

  // Ends every stream and the listener; idempotent. Failure: kDeadlineExceeded (streams were cut).
  virtual Status shutdown(std::chrono::milliseconds deadline) = 0;
};

}  // namespace osm::ads
