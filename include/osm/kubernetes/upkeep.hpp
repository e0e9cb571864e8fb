// What a control plane writes into its cluster, beside serving proxies: its kinds, its webhooks,
// the status of policies. Every replica runs one; what one at a time may write, the holder of a
// Lease does.
//
//   auto upkeep = kubernetes::start_upkeep({.cluster = **cluster, ..., .replica = pod_name,
//                                           .install_kinds = true, .status_of = &**control_plane});
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/clock.hpp"
#include "osm/control_plane.hpp"
#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/ids.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::kubernetes {

// Which parts of the cluster to keep up. Everything borrowed outlives the upkeep.
struct UpkeepOptions {
  Cluster& cluster;
  Executor& blocking;  // waits there for the API server: two threads or more
  const Clock& clock;
  Rng& rng;
  LogSink& log;
  MetricsSink& metrics;
  std::string replica;  // no other replica has it: this pod's name
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";

  // By every replica, put back when somebody deletes or changes it:
  bool install_kinds = false;  // the CRDs of the mesh's own kinds
  // The webhook configurations, which trust what this manager issues, also after its CA changed.
  certificate::Manager* mutating_webhook = nullptr;
  certificate::Manager* validating_webhook = nullptr;

  // By the Lease's holder:
  // The MeshConfig, from the ConfigMap preset-mesh-config: created when there is none, and brought
  // up to a newer preset where nobody changed it.
  bool follow_preset = false;
  // Conditions and Events of the objects of `store`, as far as they have come here.
  ControlPlane* status_of = nullptr;
  // Bootstrap Secrets go with their Pods, or when these never come; Pods are those of `store`.
  bool keep_secrets = false;
  ObjectStore* store = nullptr;  // for the last two
  // Their proxy certificates, issued by this manager: new ones after two thirds of their life, and
  // when its CA or its trust bundle is another. Requires `keep_secrets` and `trust_domain`.
  certificate::Manager* proxy_certificates = nullptr;
  // The client certificate of an ingress gateway: issued by this manager, kept in the Secret that
  // spec.certificate.ingressGateway of `mesh_spec`'s MeshConfig names. What keeps it from being so
  // is logged, and an Event of the MeshConfig where `status_of` is given.
  certificate::Manager* gateway = nullptr;
  MeshSpec* mesh_spec = nullptr;  // required with `gateway`, as is the next
  TrustDomain trust_domain{};     // also required with `proxy_certificates`
  // Those of now, where roots are rotated: RootRotation::trust_domains(). Null: the one above.
  std::function<TrustDomains()> trust_domains{};
  // Where replicas tell each other of how many proxies have an object. Null: conditions count the
  // proxies of the replica that writes them. Made with the same `replica`.
  ReplicaBoard* board = nullptr;
  // How far the mesh's roots are, as RootRotation::status(): state and message of the
  // MeshRootCertificates in `osm_namespace`, by the Lease's holder. Asked once a second, in
  // `blocking`. Null: they have no status.
  std::function<std::vector<RootStatus>()> roots{};
};
// What keeps a cluster's part of the mesh as it should be, while it lives.
class OSM_API Upkeep {
 public:
  // Ends it, and gives the Lease up. Blocking: until the calls under way have returned. Thread: not
  // of the executors.
  virtual ~Upkeep() = default;

  // Whether this replica holds the Lease now. Thread: any. Blocking: no.
  virtual bool leads() const = 0;

  // How many bootstrap Secrets, of Pods in the store, are to get a new proxy certificate: theirs is
  // of another CA than the manager of `proxy_certificates` has now, came with another trust bundle,
  // or ends soon. nullopt: it is not known, because this replica does not hold the Lease, or has
  // not looked at all of them since the CA or the trust bundle changed.
  // Thread: any. Blocking: no.
  virtual std::optional<std::size_t> stale_secrets() const = 0;
};

// Everything borrowed outlives the board.
struct ReplicaBoardOptions {
  Cluster& cluster;
  Executor& blocking;  // waits there for the API server
  const Clock& clock;
  Rng& rng;
  LogSink& log;
  MetricsSink& metrics;
  std::string replica;  // no other replica has it, nor had it
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";
  // What this replica takes part in: who reads another topic does not hear of it, and it may not
  // publish to one. Empty: all.
  std::set<std::string> topics{};
};

// The board of the mesh's replicas: a Lease for each in `osm_namespace`, renewed every 5 s, gone
// after 15. It is left when the board is destroyed. Blocking: its destructor, for the calls of the
// API under way and one more. Thread: any; its destructor not on the executors.
// Failure: kInvalidArgument, without `replica`. What the API server refuses is logged and tried
// again.
OSM_API Result<std::unique_ptr<ReplicaBoard>> make_replica_board(
    const ReplicaBoardOptions& options);

// How far a rotation of roots is, in the ConfigMap osm-root-rotation of `osm_namespace`, for every
// daemon of the mesh. `cluster` outlives it. Failure: none until it is read; then also
// kPermissionDenied, naming the rule that is missing. Thread: any. Blocking: no.
OSM_API std::unique_ptr<RotationRecord> make_rotation_record(Cluster& cluster,
                                                             std::string osm_namespace);

// Begins to keep up what is asked for. Failure: kInvalidArgument, naming the option that is
// missing. What the API server refuses is logged and tried again. Thread: any. Blocking: no.
OSM_API Result<std::unique_ptr<Upkeep>> start_upkeep(const UpkeepOptions& options);

}  // namespace osm::inline v1::kubernetes
