// The control plane as one object. Input: the target state of the mesh (MeshSpec) and its workloads
// (providers). Output: an ADS server for the mesh's proxies. osm-controller is a thin program
// around it.
//
// Any number of control planes can run in one process; they share nothing. A control plane does not
// read the environment, install signal handlers, write to stdout or start threads (gRPC and the ADS
// listener have threads of their own while the server runs).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "osm/certificate/audit.hpp"
#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/subscription.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1 {

// Include the header of each one that you use.
class DrainedMachines;   // osm/providers/drained_machines.hpp
class MeshCataloger;     // osm/mesh_cataloger.hpp
class MeshSpec;          // osm/mesh_spec.hpp
class ReplicaBoard;      // osm/runtime/replica_board.hpp
class ResourceHook;      // osm/resource_hook.hpp, which includes Envoy's protos
class RootRotation;      // osm/certificate/root_rotation.hpp
struct ObjectStatus;     // osm/values/object_status.hpp
struct Proxy;            // osm/values/proxy.hpp
namespace certificate {  // osm/certificate/manager.hpp
class Manager;
struct Certificate;
struct Subject;
}  // namespace certificate

// Bounds on connections to the ADS port. A proxy holds one connection. Beyond a bound of all
// connections, new ones wait in the kernel's queue; beyond the bound per address they are closed.
struct ConnectionLimits {
  // 0: as many as the process may have descriptors, less those for everything else.
  std::size_t connections = 0;
  // Descriptors for everything else, such as the host's own ports (osm/net/ports.hpp): connections
  // of proxies leave so many, but half of the process's limit at most.
  std::size_t reserved_descriptors = 128;
  // Connections that have not shown a certificate of the mesh: at most 10 seconds each.
  std::size_t unverified = 2000;
  // The same from one address; 0: no bound, for proxies behind a load balancer.
  std::size_t unverified_per_address = 500;
  std::size_t accepts_per_second = 1000;
};

// Lifetime: everything borrowed outlives the control plane.
struct ControlPlaneOptions {
  MeshSpec& spec;
  std::vector<ProviderEntry> providers;  // in order of precedence
  std::vector<WorkloadProvider*> workload_providers;
  certificate::Manager& certificates;
  // More threads of `executor` encode more resources at once. `blocking` waits for the CA.
  Runtime runtime;
  // With `root_rotation`, the rotation's trust domains count instead.
  TrustDomain trust_domain{"cluster.local"};
  // True: proxies also accept workloads of OSM v1.2, by the DNS names in their certificates, which
  // the same CA signs (docs/migrate-from-osm.md).
  bool accept_osm_v1_identities = false;
  std::string osm_namespace = "osm-system";  // part of the name in the server's certificate
  // Port 0: the kernel chooses. Empty: a catalog without a server, to which no proxy can connect.
  std::string ads_address = "0.0.0.0:15128";
  ConnectionLimits ads_connections{};
  const ResourceHook* resource_hook = nullptr;
  // The rotation whose issuer() `certificates` has; shutdown() stops it. Null: the root stays. Its
  // steps wait on `runtime.blocking` for `runtime.executor`: lend two executors.
  RootRotation* root_rotation = nullptr;
  // Limit of gRPC's memory for connections, calls and messages. Beyond it gRPC cancels streams.
  std::size_t max_transport_bytes = std::size_t{1} << 30;
  // Replicas that share the mesh's objects (ReplicaBoard::confirmed_at) report their proxies, so
  // that each answers for all. All notice a certificate that is in use at two of them, and find
  // refused objects sooner. Null: this is the only replica.
  ReplicaBoard* board = nullptr;
  // Name of this replica. Each response has "<replica>/<generation>/<hash>" of the mesh that it was
  // made from as its control_plane.identifier.
  std::string replica = "osm-controller";
  // True: a replica with many more proxies than the others on the board ends some of their streams,
  // a few at a time, so that they connect to another one.
  bool rebalance = false;
  // Takes machines out of their Services that ask for it (`osm vm leave`). Null: none is served.
  DrainedMachines* drained = nullptr;
  // Asked before a proxy's new stream is admitted, and before a proxy's own certificate is renewed:
  // a failure refuses it, with its text; open streams go on. Thread: of the executor; must not
  // block. Null: every proxy is admitted. host::StaleReplicaGuard is for replicas.
  std::function<Status()> admits{};
};

// State of a control plane at one moment.
struct ControlPlaneStatus {
  // Names of the inputs that have not synced yet, such as "mesh specification" and "endpoints
  // provider vm". The control plane configures no proxy before they have. Later the list has the
  // ADS listener, while no connection can be accepted, and everything of `hanging`.
  std::vector<std::string> waiting_for;
  // Each provider's health.
  std::vector<ProviderStatus> providers;
  // Everything that was left out of the mesh, with reasons and places, ordered.
  std::vector<Problem> problems;
  // Version of the mesh: the number of changes since the start (0: it is not known yet), and a hash
  // of its content, which is equal on every replica that knows the same mesh.
  std::uint64_t generation = 0;
  std::string mesh_hash{};
  // True while it serves as many proxies as MeshConfig's maxDataPlaneConnections allows, and so
  // refuses further ones.
  bool full = false;
  // Parts of the control plane that hang, in words: one of their tasks has run, or has waited for a
  // thread of the executor, for 30 seconds, or for two minutes where that is long work. Much work
  // is no hang, nor is the build of a large mesh. A host that finds some here ends the process,
  // since nothing else helps. The seconds are counted between calls of status(): ask it regularly.
  std::vector<std::string> hanging{};
};

class OSM_API ControlPlane {
 public:
  // Result: a control plane that listens. It configures proxies after everything has synced.
  // Failure: kInvalidArgument (address; a root rotation that was followed already), kUnavailable
  // (port taken, CA unreachable), kInternal.
  // Thread: any but the executors'. Blocking: until the server's certificate is issued.
  static Result<std::unique_ptr<ControlPlane>> start(const ControlPlaneOptions& options);

  // Calls shutdown() with a deadline of one second. Thread: any but the executors', which must
  // still run. Blocking: as shutdown().
  virtual ~ControlPlane() = default;

  // "HOST:PORT" with the real port; empty: it does not listen. Thread: any. Blocking: no.
  virtual std::string ads_address() const = 0;

  // The catalog of the mesh. Thread: any. Lifetime: the control plane's.
  virtual MeshCataloger& catalog() const = 0;

  // Thread: any. Blocking: no.
  virtual ControlPlaneStatus status() const = 0;

  // Calls `on_change` whenever the mesh, status().problems, the connected proxies or what they have
  // acknowledged may have changed. One call may stand for several changes. Thread: of the executor,
  // one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void()> on_change) = 0;

  // Subject of the proxy of `workload`. A certificate request for that proxy must name exactly this
  // subject (certificate::make_request). Thread: any. Blocking: no.
  virtual certificate::Subject proxy_subject(const Workload& workload) const = 0;

  // Certifies the key of `request_pem` for the proxy of `workload`, and expects that proxy's stream
  // from now on. The requester keeps the key. The control plane does not renew the certificate.
  // `requester` is for the audit log.
  // Failure: kInvalidArgument (the request does not name exactly proxy_subject(); a thread of the
  // executor); the manager's. Thread: any but the executor's. Blocking: until the CA answers.
  virtual Result<std::shared_ptr<const certificate::Certificate>> issue_proxy_certificate(
      const Workload& workload, const std::string& request_pem, std::chrono::seconds validity,
      const certificate::Requester& requester = {}) = 0;

  // Connected proxies of all replicas, ordered by workload, those of others as of some seconds ago.
  // Thread: any but the executor's. Blocking: briefly.
  virtual std::vector<Proxy> list_proxies() const = 0;

  // Configuration that a proxy of this replica was sent and that it acknowledged, as JSON of
  // envoy.admin.v3.ConfigDump. Secrets appear as fingerprints only. `proxy`: UUID,
  // "<namespace>/<workload>" or a unique workload name.
  // Failure: kNotFound, kInvalidArgument (ambiguous). Thread: any but the executor's.
  // Blocking: briefly.
  virtual Result<std::string> config_dump(const std::string& proxy) const = 0;

  // Progress of an object's newest version on its way to the proxies, at all replicas.
  // Failure: kNotFound (no such object, or its kind shapes no proxy), kNotReady (not synced),
  // kUnavailable (shutting down), kInvalidArgument (on a thread of the executor). Thread: any but
  // the executor's. Blocking: briefly.
  virtual Result<ObjectStatus> object_status(const ObjectKey& object) const = 0;

  // Waits until every connected proxy that the object concerns has applied it.
  // Result: the status at that moment.
  // Failure: kDeadlineExceeded, naming the lagging proxies; if the object was left out, the code of
  // its problem (kInvalidField, ...); kRefusedByProxy if proxies refuse this version of the object
  // and all others have applied it; as object_status().
  // Thread: any but the executors'. Blocking: up to `timeout`.
  virtual Result<ObjectStatus> wait_until_applied(const ObjectKey& object,
                                                  std::chrono::milliseconds timeout) const = 0;

  // Call it when the resource hook would give other resources. Every proxy's configuration is
  // computed again, and the differences are sent. Thread: any. Blocking: no.
  virtual void refresh_resources() = 0;

  // Ends every stream (many of them a few at a time, served until then), the listener and every
  // subscription. Idempotent. Afterwards no callback runs and nothing borrowed is used.
  // Failure: kDeadlineExceeded (streams were cut).
  // Thread: any but the executors'. Blocking: up to `deadline`; for many streams most of it.
  virtual Status shutdown(std::chrono::milliseconds deadline) = 0;
};

}  // namespace osm::inline v1
