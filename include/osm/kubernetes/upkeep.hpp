// Objects that a control plane writes into its cluster: its kinds, its webhooks, the status of
// policies. Every replica runs an upkeep; the one that leads its board writes the parts that one
// replica at a time may write.
//
//   auto board = kubernetes::make_replica_board({.cluster = **cluster, .runtime = ...,
//                                                .replica = pod_name});
//   auto upkeep = kubernetes::start_upkeep({.cluster = **cluster, .runtime = ...,
//                                           .replica = pod_name,
//                                           .kinds_repair = kubernetes::Repair::kReport,
//                                           .board = board->get(),
//                                           .status = {{**control_plane, **store}}});
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
#include "osm/control_plane.hpp"
#include "osm/detail/api.hpp"
#include "osm/inject/injector.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/values/denylist.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::kubernetes {

// Parts of the upkeep. Lifetime: everything borrowed outlives the upkeep. No function is empty.

// Repair of an object of the whole cluster. Each word includes the ones before it. A missing or
// changed object that is not repaired is in problems(), in the metric osm_cluster_object_present
// and in an Event.
enum class Repair {
  kReport,   // none
  kRestore,  // a changed object is restored
  kCreate,   // a missing object is created; the account may then create any object of the kind
};

// A webhook configuration, which trusts the certificates of this manager, also after its CA
// changed. Null: another program sets the CA.
struct WebhookUpkeep {
  certificate::Manager* manager = nullptr;
  Repair repair = Repair::kRestore;
};

// Conditions and Events of the objects of `store`, as this control plane knows them: with a board,
// over the proxies of all replicas.
struct StatusUpkeep {
  ControlPlane& control_plane;
  ObjectStore& store;
};

// The proxy certificates in bootstrap Secrets: renewed after two thirds of their validity, and when
// that, the CA or the trust bundle of `manager` changes.
struct ProxyCertificateUpkeep {
  certificate::Manager& manager;
  std::function<TrustDomains()> trust_domains;     // in effect: RootRotation::trust_domains()
  std::function<std::chrono::seconds()> validity;  // MeshConfig's of proxy certificates
  std::function<Denials()> denials{};              // get no new certificate; null: none
};

// Bootstrap Secrets are deleted with their Pods, or when the Pod never comes.
struct SecretUpkeep {
  ObjectStore& store;  // has the Pods and Namespaces of the mesh
  std::optional<ProxyCertificateUpkeep> certificates{};
};

// The client certificate of an ingress gateway: issued by this manager, kept in the Secret that
// spec.certificate.ingressGateway of `mesh_spec`'s MeshConfig names. Failures are logged and, if
// `status_of` is set, an Event of the MeshConfig.
struct GatewayUpkeep {
  certificate::Manager& manager;
  MeshSpec& mesh_spec;
  std::function<TrustDomains()> trust_domains;  // in effect
};

// State and message of the MeshRootCertificates in the mesh's namespace.
struct RootsUpkeep {
  std::function<std::vector<RootStatus>()> roots;  // RootRotation::status(); called once a second
  ObjectStore& store;                              // has the MeshRootCertificates
};

// The parts of the cluster to keep up. Lifetime: everything borrowed outlives the upkeep.
struct UpkeepOptions {
  Cluster& cluster;
  Runtime runtime;      // `blocking` waits for the API server: two threads or more
  std::string replica;  // unique among replicas: this pod's name
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";
  spec::Kinds kinds = spec::mesh_kinds();  // that have a webhook and a status

  // By every replica:
  std::optional<Repair> kinds_repair{};  // of the CRDs of the mesh's own kinds
  std::optional<WebhookUpkeep> mutating_webhook{};
  std::optional<WebhookUpkeep> validating_webhook{};
  // True: the webhooks are for namespaces that have moved here from OSM v1.2, which has webhooks of
  // its own for the others.
  bool beside_osm_v1 = false;

  // By the replica that leads:
  // The board that chooses it. The upkeep holds a handle of stand() until it has stopped to write.
  // For read_waiting_secrets() it has the number of Secrets that wait for their Pod.
  ReplicaBoard* board = nullptr;  // required by the parts below
  // The MeshConfig, from the ConfigMap preset-mesh-config: created if there never was one, and
  // updated to a newer preset where nobody changed it.
  bool follow_preset = false;
  std::optional<StatusUpkeep> status{};
  std::optional<SecretUpkeep> secrets{};
  std::optional<GatewayUpkeep> gateway{};
  std::optional<RootsUpkeep> roots{};

  // False: Secrets are read in the whole cluster. True: only in the mesh's namespaces, for an
  // account with a Role in each; a namespace without one is in problems().
  bool secrets_by_namespace = false;
};

// Keeps the chosen parts of a cluster up while it lives.
class OSM_API Upkeep {
 public:
  // Ends it, and then its handle of stand(). Blocking: until running calls have returned. Thread:
  // not of the executors.
  virtual ~Upkeep() = default;

  // CRDs and webhook configurations that are missing or changed, and what to do about it.
  // Thread: any. Blocking: no.
  virtual std::vector<Problem> problems() const = 0;

  // Number of bootstrap Secrets, of Pods in the store, that need a new proxy certificate: the CA or
  // the trust bundle is another than the manager's, or the certificate ends soon. nullopt: not
  // known, because this replica does not lead, or has not listed the Secrets since the CA or the
  // trust bundle changed.
  // Thread: any. Blocking: no.
  virtual std::optional<std::size_t> stale_secrets() const = 0;
};

// Lifetime: everything borrowed outlives the board.
struct ReplicaBoardOptions {
  Cluster& cluster;
  Runtime runtime;      // `blocking` waits for the API server
  std::string replica;  // unique, also among former replicas
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";
  // The topics of this replica: readers of other topics do not see it, and it may not publish to
  // them. A replica with some topics only, such as an injector, never leads. Empty: all.
  std::set<std::string> topics{};
};

// The board of the mesh's replicas: one Lease per replica in `osm_namespace`, renewed every 5 s,
// expired after 15 s. The replica that holds one more Lease, osm-controller-<mesh>, leads. Replicas
// with a handle of stand() ask for it, renew it every 7 s, and follow a holder that has not renewed
// it for 15 s. Destroying the board deletes the replica's own Lease. Blocking: its destructor, for
// running calls of the API and some more. Thread: any; its destructor not on the executors.
// Failure: kInvalidArgument, without `replica`. Errors of the API server are logged and retried.
OSM_API Result<std::unique_ptr<ReplicaBoard>> make_replica_board(
    const ReplicaBoardOptions& options);

// Bootstrap Secrets without a Pod, as the replica that leads published on the board some seconds
// ago; counts are rounded down to tens. nullopt: no replica publishes them. Thread: any.
// Blocking: no.
OSM_API std::optional<inject::WaitingSecrets> read_waiting_secrets(const ReplicaBoard& board);

// Failure: kInvalidArgument, if a part needs a leader, and `replica` is empty or `board` is null.
// Refusals of the API server are logged and retried. Thread: any. Blocking: no.
OSM_API Result<std::unique_ptr<Upkeep>> start_upkeep(const UpkeepOptions& options);

}  // namespace osm::inline v1::kubernetes
