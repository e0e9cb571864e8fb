// The ADS server: xDS v3 over gRPC with mutual TLS. It gets the mesh through the snapshot cell
// only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ads/drains.hpp"
#include "ads/progress.hpp"
#include "ads/readiness_table.hpp"
#include "ads/renewals.hpp"
#include "ads/stream_host.hpp"
#include "ads/trial.hpp"
#include "base/snapshot_cell.hpp"
#include "model/mesh_snapshot.hpp"
#include "model/secret_source.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::ads {

struct AdsServerOptions {
  // Port 0: the kernel chooses, see address(). Empty: no gRPC at all; streams come through
  // StreamHost.
  std::string address = "0.0.0.0:15128";
  ConnectionLimits connections{};
  std::vector<TrustDomain> accepted_domains{
      TrustDomain("cluster.local")};  // trust domains of proxies
  std::chrono::milliseconds unknown_workload_wait{5000};
  // Limit of gRPC's memory for connections, calls and messages. Beyond it gRPC reads no more and
  // cancels streams.
  std::size_t max_transport_bytes = std::size_t{1} << 30;
  std::string replica = "osm-controller";  // as in ControlPlaneOptions
  bool rebalance = false;                  // likewise
  // Returns the server's own certificate. Called at every handshake.
  std::function<certificate::CertificatePtr()> server_certificate;
};

// Borrowed parts. Lifetime: all outlive the server.
struct AdsServerDependencies {
  Runtime runtime;  // sessions run on one strand of the executor, encoding on the rest
  SnapshotCell<model::MeshSnapshot>& snapshots;
  model::SecretSource& secrets;
  ProxyRegistry& registry;
  const ResourceHook* hook = nullptr;
  RenewCertificate renew_certificate{};  // empty: proxies' certificates are not renewed here
  DrainMachine drain_machine{};          // empty: machines are not drained here
  ReplicaBoard* board = nullptr;         // null: there are no other replicas
  std::function<Status()> admits{};      // as in ControlPlaneOptions
  // Returns the time at which the first change of the newest snapshot was announced. Empty:
  // unknown.
  std::function<SteadyTime()> announced_at{};
  ReadinessTable* readiness = nullptr;  // null: nobody asks which proxies are ready
};

class AdsServer : public StreamHost, public TrialHost, public ProgressHost {
 public:
  ~AdsServer() override = default;  // calls shutdown() with a deadline of one second

  // Failure: kInvalidArgument (address), kUnavailable (port taken). Blocking: briefly.
  static Result<std::unique_ptr<AdsServer>> start(const AdsServerOptions& options,
                                                  const AdsServerDependencies& dependencies);

  // "HOST:PORT" with the real port; empty if the server does not listen.
  virtual std::string address() const = 0;

  // Failure: kUnavailable: connections cannot be accepted now. Thread: any. Blocking: no.
  virtual Status health() const = 0;

  // Failure: kUnavailable: the strand of the streams hangs (Pulse). Thread: any. Blocking: no.
  virtual Status alive() const = 0;

  // True if it serves as many proxies as MeshConfig allows. Thread: any. Blocking: no.
  virtual bool full() const = 0;

  // Connected proxies, ordered by workload. Thread: any but the executor's. Blocking: briefly.
  virtual std::vector<Proxy> list_proxies() const = 0;

  // Configuration that a proxy was sent and that it acknowledged, as JSON of
  // envoy.admin.v3.ConfigDump. Secrets appear as fingerprints only. `name`: UUID,
  // "<namespace>/<workload>" or a unique workload name.
  // Failure: kNotFound, kInvalidArgument (ambiguous). Thread: any but the executor's.
  virtual Result<std::string> config_dump(const std::string& name) const = 0;

  // Admits proxies of these trust domains from now on, and ends the streams of others.
  // Thread: any. Blocking: no.
  virtual void set_accepted_domains(std::vector<TrustDomain> domains) = 0;

  // Computes all resources again because the hook would give others. Thread: any. Blocking: no.
  virtual void refresh_resources() = 0;

  // Ends every stream and the listener. Streams end a few at a time, within three quarters of
  // `deadline`; until then each is served. Idempotent. Failure: kDeadlineExceeded (streams were
  // cut).
  virtual Status shutdown(std::chrono::milliseconds deadline) = 0;
};

}  // namespace osm::inline v1::ads
