// What one proxy class sees of a snapshot, and the inputs each resource type makes of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "translate/translate.hpp"

namespace osm::inline v1::translate {

using ServiceEntryPtr = std::shared_ptr<const model::ServiceEntry>;

struct ClassView {
  // Borrows both. An upstream whose service is not in the snapshot is left out.
  ClassView(const model::MeshSnapshot& mesh, const ProxyClass& seen_by);

  struct UpstreamService {
    const model::Upstream* upstream;
    ServiceEntryPtr entry;
  };

  // The upstream service of this name, or null when the class may not send to it.
  const UpstreamService* find(const ServiceName& service) const;

  // Whether any chain of the outbound, or of the inbound listener speaks HTTP.
  bool sends_http() const;
  bool receives_http() const;

  const model::MeshSnapshot& snapshot;
  const ProxyClass& proxy_class;
  model::UpstreamList upstream_list;       // keeps what `upstreams` points into
  std::vector<UpstreamService> upstreams;  // ordered by service
};

// Resource names that two types must agree on.
std::string outbound_route_name(Port service_port);  // "rds-outbound.<port>"
std::string inbound_route_name(Port target_port);    // "rds-inbound.<target port>"
// With ".<fqdn>" those of one headless service alone: its pods are told apart by address, not by
// host name (ADR 0022).
std::string outbound_route_name(const model::ServiceEntry& service, const MeshService& port);
std::string inbound_route_name(const ClassView& view, const MeshService& own);
// Where a client that dials this port is sent.
std::string dialled_cluster_name(const model::ServiceEntry& service, const MeshService& port);

// Pods of a headless service where a port has one and the same number (ADR 0026).
struct DialledPods {
  MeshService port;  // with that number as its target port
  bool usual;        // it is the service's own target port
  std::vector<std::string> addresses;
};
// By number, the usual first; one, unless pods give a named port several numbers.
std::vector<DialledPods> dialled_pods(const model::ServiceEntry& service, const MeshService& port);
// That of the port, with ".<number>" where it is not the usual one.
std::string outbound_route_name(const model::ServiceEntry& service, const DialledPods& pods);

// Whether a client that dials this port means one pod and gets that one: "…|original-dst".
bool dials_one_pod(const model::ServiceEntry& service, const MeshService& port);

inline constexpr const char* kPassthroughCluster = "passthrough-outbound";
// Servers that MeshConfig names.
inline constexpr const char* kTracingCluster = "envoy-tracing-cluster";
inline constexpr const char* kAuthorizationCluster = "envoy-authorization-cluster";

// In any order, names possibly repeated.
std::vector<InputPtr> cluster_inputs(const ClassView& view);
std::vector<InputPtr> endpoint_inputs(const ClassView& view);
std::vector<InputPtr> endpoint_inputs(const model::MeshSnapshot& snapshot,
                                      const ClassView::UpstreamService& upstream);
std::vector<InputPtr> listener_inputs(const ClassView& view);
std::vector<InputPtr> route_inputs(const ClassView& view);

// The host names of a service as they stand in virtual hosts, in their documented order; each plain
// and with every port. Short names (the service's own) resolve in its namespace only.
std::vector<std::string> hostnames(const ServiceName& service, const std::vector<Port>& ports,
                                   bool short_names);

}  // namespace osm::inline v1::translate
