// The view of one proxy class on a snapshot, and the inputs of each resource type from it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "translate/translate.hpp"

namespace osm::inline v1::translate {

using ServiceEntryPtr = std::shared_ptr<const model::ServiceEntry>;

struct ClassView {
  // Borrows both arguments. An upstream whose service is not in the snapshot is left out.
  ClassView(const model::MeshSnapshot& mesh, const ProxyClass& seen_by);

  struct UpstreamService {
    const model::Upstream* upstream;
    ServiceEntryPtr entry;
  };

  // The upstream service of this name; null if the class may not send to it.
  const UpstreamService* find(const ServiceName& service) const;

  // The retries of the class's requests to the service; null: there are none.
  const RetryPolicy* retry_of(const ServiceName& service) const;

  // The limits of the service; null: there are none.
  const UpstreamLimits* limits_of(const ServiceName& service) const;
  // The callers from outside of the mesh that the port admits; null: there are none.
  const model::IngressPort* ingress_of(const ServedPort& served_port) const;

  // True if any chain of the outbound listener, or of the inbound one, uses HTTP.
  bool sends_http() const;
  bool receives_http() const;

  const model::MeshSnapshot& snapshot;
  const ProxyClass& proxy_class;
  std::shared_ptr<const model::ClientPolicy> client;       // null: no policy names the identity
  std::shared_ptr<const model::TelemetryEntry> telemetry;  // null: defaults
  model::UpstreamList upstream_list;       // owns the entries that `upstreams` points to
  std::vector<UpstreamService> upstreams;  // ordered by service
  std::vector<ServedPort> served;          // own ports and leaving ones, ordered by port
};

// Resource names that two resource types share.
std::string outbound_route_name(Port service_port);  // "rds-outbound.<port>"
std::string inbound_route_name(Port target_port);    // "rds-inbound.<target port>"
// With ".<fqdn>": each service port has its own.
std::string outbound_route_name(const model::ServiceEntry& service, const MeshService& port);
// With ".<fqdn>" for a headless service: its pods are told apart by address, and any host name is
// served.
std::string inbound_route_name(const ServedPort& served);
// One of the clusters that a dialled port leads to.
struct Destination {
  std::string cluster;
  std::uint32_t weight = 0;  // 0: the only one
};
// The port's own cluster. As apex of a split: the clusters of the backends' ports of the same
// number and kind, HTTP or TCP, ordered; empty: no backend may get the traffic.
std::vector<Destination> destinations_of(const ClassView& view, const model::ServiceEntry& entry,
                                         const MeshService& dialled);

// Cluster for a client that dials this port.
std::string dialled_cluster_name(const model::ServiceEntry& service, const MeshService& port);

// Pods of a headless service that give a port the same number.
struct DialledPods {
  MeshService port;  // with that number as its target port
  bool usual;        // the number is the service's own target port
  std::vector<std::string> addresses;
};
// Groups of pods by number, the usual number first. There is one group, unless pods give a named
// port several numbers.
std::vector<DialledPods> dialled_pods(const model::ServiceEntry& service, const MeshService& port);
// Route name of the port, with ".<number>" if the number is not the usual one.
std::string outbound_route_name(const model::ServiceEntry& service, const DialledPods& pods);

// True if a client that dials this port reaches the very pod that it dials: "…|original-dst".
bool dials_one_pod(const model::ServiceEntry& service, const MeshService& port);

// Leads to the dialled address, without limits: for global egress, and for Egresses. In common, so
// that it stays when one of them replaces the other.
inline constexpr const char* kPassthroughCluster = "passthrough-outbound";
// Clusters of servers outside the mesh that MeshConfig names.
inline constexpr const char* kTracingCluster = "envoy-tracing-cluster";
inline constexpr const char* kAuthorizationCluster = "envoy-authorization-cluster";
// Path and header of health checks between sidecars. Client and server
// must agree on them.
inline constexpr const char* kProbePath = "/healthz/osm";
inline constexpr const char* kProbeHeader = "x-osm-envoy-healthcheck";

// True if gRPC libraries may be clients and servers of the port: the Service names it "grpc-xds" or
// "grpc-xds-...". Both sides of such a port's connections offer ALPN "h2", because gRPC knows no
// other (ADR 0065).
bool is_for_grpc_libraries(const MeshService& port);

// Weights of localities: Envoy reads none, gRPC leaves out a locality without one.
enum class LocalityWeights { kNone, kHosts };

// Inputs in any order; names may repeat.
std::vector<InputPtr> cluster_inputs(const ClassView& view);
std::vector<InputPtr> endpoint_inputs(const ClassView& view);
std::vector<InputPtr> endpoint_inputs(const model::MeshSnapshot& snapshot,
                                      const ClassView::UpstreamService& upstream,
                                      LocalityWeights weights);
std::vector<InputPtr> listener_inputs(const ClassView& view);
std::vector<InputPtr> route_inputs(const ClassView& view);

// Host names (model::host_names()) as domains of a virtual host: each without a port and with every
// port.
std::vector<std::string> domains_of(const std::vector<std::string>& host_names,
                                    const std::vector<Port>& ports);

}  // namespace osm::inline v1::translate
