// The mesh on Kubernetes: an API server as an ObjectStore, and its pods as endpoints and workloads.
//
//   auto cluster = kubernetes::connect({.kubeconfig = "/etc/osm/kubeconfig", .io = ..., ...});
//   auto store = kubernetes::make_store({.cluster = **cluster, ...});
//   auto spec = spec::make_mesh_spec({.store = *store, ...});
//   auto pods = kubernetes::make_provider({.store = *store, .mesh_spec = *spec, ...});
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "osm/certificate/ca_store.hpp"
#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/asio_executor.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::kubernetes {

class Api;  // private

// An API server with credentials.
class OSM_API Cluster {
 public:
  virtual ~Cluster() = default;

  // "https://10.96.0.1:443". Thread: any. Blocking: no.
  virtual std::string server() const = 0;

  // For the library's own use. Thread: any. Blocking: no.
  virtual Api& api() = 0;
};

// Address and credentials of a cluster.
struct ClusterOptions {
  std::string kubeconfig{};  // path; empty: the ServiceAccount of the pod this runs in
  std::string context{};     // context of the kubeconfig; empty: its current one
  // True: another party wrote the kubeconfig. It runs no program and names no file of this host:
  // its data is inline, or in files beside it named ".<its own name>.<anything>".
  bool foreign = false;
  // The host's environment. In a pod it has KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT;
  // exec credential plugins run with it (PATH, HOME).
  std::map<std::string, std::string> environment{};
  std::string service_account_dir = "/var/run/secrets/kubernetes.io/serviceaccount";
  net::AsioExecutor& io;  // these outlive the cluster
  // `blocking` waits for exec credential plugins and for name look-ups; its threads end before the
  // io_context of `io` does.
  Runtime runtime;
};

// Reads the server's address and credentials; connects at the first call.
// Failure: kUnreadableSource, kInvalidSyntax, kInvalidField, kNotFound (no such context; not in a
// cluster), naming the file, the field and the remedy. Thread: any. Blocking: reads files.
OSM_API Result<std::unique_ptr<Cluster>> connect(const ClusterOptions& options);

// Selects the objects of a cluster that form the mesh.
struct StoreOptions {
  Cluster& cluster;  // these outlive the store
  Runtime runtime;
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";
  spec::Kinds kinds = spec::mesh_kinds();
  bool workloads = true;  // also Pods and EndpointSlices, for make_provider()
};

// The objects of a mesh, followed by informers: Namespaces with the monitored-by label, Services,
// ServiceAccounts, Pods with a proxy UUID, EndpointSlices, the SMI and OSM kinds, VirtualMachines.
// A kind whose CRD is not installed counts as empty and is checked again later. Failure: none.
OSM_API std::unique_ptr<ObjectStore> make_store(const StoreOptions& options);

// Inputs of a provider of pods, and its sinks.
struct ProviderOptions {
  ObjectStore& store;   // holds Pods and EndpointSlices; this and the rest outlive the provider
  MeshSpec& mesh_spec;  // Services and namespaces, from the same store
  LogSink& log;
  MetricsSink& metrics;
  // A DNS label of at most 52 bytes. The provider's id is "kubernetes-<cluster_name>", or
  // "kubernetes" if it is empty.
  std::string cluster_name{};
};

// A store of the CA in a Secret: `ca.crt` and `private.key`, PEM. Of replicas that race one creates
// it, the others read it. Lifetime: `cluster` outlives the store.
OSM_API std::unique_ptr<certificate::CaStore> make_ca_store(Cluster& cluster, std::string ns,
                                                            std::string name);

// A Secret to create: `data` is bytes.
struct Secret {
  std::string ns;
  std::string name;
  std::map<std::string, std::string> labels{};
  std::map<std::string, std::string> annotations{};
  std::map<std::string, SecretBytes> data{};
};

// Creates the Secret. Failure: kAlreadyExists; kPermissionDenied, kUnavailable, ... with the
// server's message.
// Thread: any but an event loop's. Blocking: until the server answers.
OSM_API Status create_secret(Cluster& cluster, const Secret& secret);

// The bytes of one key of a Secret. Failure: kNotFound, kInvalidField, kPermissionDenied,
// kUnavailable, ..., naming the Secret, never its content. Thread, blocking: as above.
OSM_API Result<std::string> read_secret(Cluster& cluster, const std::string& ns,
                                        const std::string& name, const std::string& key);

// The server's minor version: 31 of "v1.31.1". Failure: kUnavailable, kPermissionDenied,
// kInvalidSyntax. Thread, blocking: as above.
OSM_API Result<int> server_minor_version(Cluster& cluster);

// The versions of a cluster's kubelets, followed by an informer on Nodes.
class OSM_API KubeletVersions {
 public:
  virtual ~KubeletVersions() = default;

  // Minor version of the oldest kubelet: 31 of v1.31.1. nullopt: not known, because no Node was
  // read yet, or one of them has another kind of version. Thread: any. Blocking: no.
  virtual std::optional<int> oldest() const = 0;
  // True once the Nodes were read, or cannot be read. Thread: any. Blocking: no.
  virtual bool has_synced() const = 0;
  // Why the Nodes cannot be read. Thread: any. Blocking: no.
  virtual std::optional<Problem> problem() const = 0;
};

// Lifetime: `cluster` and what `runtime` borrows outlive it. Failure: none.
OSM_API std::unique_ptr<KubeletVersions> follow_kubelet_versions(Cluster& cluster,
                                                                 const Runtime& runtime);

// Endpoints of Services and the pods of proxies, in one cluster.
class OSM_API Provider : public EndpointsProvider, public WorkloadProvider {};

// Creates a provider with an id of `cluster_name`. Subscribers are called in the store's thread.
// Failure: none.
OSM_API std::unique_ptr<Provider> make_provider(const ProviderOptions& options);

}  // namespace osm::inline v1::kubernetes
