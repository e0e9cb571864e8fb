// Services as written + their endpoints → services as the mesh sees them. Pure.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "endpoint/merge.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

// One Service by itself: target ports, identities and headless addresses resolved; splits and
// conflicts with other services not yet. `endpoints`: null when no provider knows the service.
model::ServiceEntry resolve_service(const Service& service,
                                    const endpoint::MergedService* endpoints);

// The endpoints of one service that may be sent traffic.
model::ServiceEndpoints resolve_endpoints(const endpoint::MergedService& endpoints);

using ServiceDrafts = std::map<ServiceName, std::shared_ptr<const model::ServiceEntry>>;

struct SettledServices {
  std::vector<model::ServiceEntry> services;  // ordered by name
  std::vector<Problem> problems;
};

// All services together. Splits: backends as written that exist (the specification reports those
// that do not), the first split of an apex by name; without weight left it is ignored. Addresses:
// an (address, port) claimed by two services belongs to the one whose cluster IP it is, else to the
// first by name; the other loses that port, or that headless address.
SettledServices settle_services(const ServiceDrafts& drafts,
                                const SharedList<smi::TrafficSplit>& splits);

}  // namespace osm::inline v1::catalog
