// What one proxy class sees of a snapshot, and the inputs each resource type makes of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "translate/translate.hpp"

namespace osm::translate {

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

  const model::MeshSnapshot& snapshot;
  const ProxyClass& proxy_class;
  model::UpstreamList upstream_list;       // keeps what `upstreams` points into
  std::vector<UpstreamService> upstreams;  // ordered by service
};

// Resource names that two types must agree on.
std::string outbound_route_name(Port service_port);  // "rds-outbound.<port>"
std::string inbound_route_name(Port target_port);    // "rds-inbound.<target port>"

inline constexpr const char* kPassthroughCluster = "passthrough-outbound";

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

}  // namespace osm::translate
