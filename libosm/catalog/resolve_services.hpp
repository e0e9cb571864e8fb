// Resolves written services and their endpoints into the services that the mesh sees. Pure.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "endpoint/merge.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

// Resolves one Service alone: target ports, identities and headless addresses; not splits and
// conflicts with other services. `endpoints`: null if no provider knows the service.
model::ServiceEntry resolve_service(const Service& service,
                                    const endpoint::MergedService* endpoints);

// The endpoints of one service that may get traffic.
model::ServiceEndpoints resolve_endpoints(const endpoint::MergedService& endpoints);

// Names the provider of each endpoint of `endpoints`: that of `merged`, or where it has no such
// endpoint that of `known`, which has the endpoints that clients know; null: they know none.
void name_providers(model::ServiceEndpoints& endpoints, const endpoint::MergedService& merged,
                    const model::ServiceEndpoints* known);

using ServiceDrafts = std::map<ServiceName, std::shared_ptr<const model::ServiceEntry>>;
using ServiceAges = std::map<ServiceName, Created>;

struct SettledServices {
  std::vector<model::ServiceEntry> services;  // ordered by name
  std::vector<Problem> problems;
};

// Resolves all services together.
// Splits: existing backends only; of several splits of one apex, the first by name. The
// specification reports missing backends, and splits in which no backend has a weight.
// Addresses: an (address, port) that two services claim belongs to the one with that cluster IP,
// else to the older one, else to the first by name. The other service loses that port, or that
// headless address. AddressOwners has decided between namespaces before, where it knows who claims
// an address. `ages`: none for services whose age is not known.
SettledServices settle_services(const ServiceDrafts& drafts, const Table<smi::TrafficSplit>& splits,
                                const ServiceAges& ages = {});

// Services whose clients are refused, since nobody in the mesh serves them and egress is off.
std::vector<Problem> check_outside(const Table<model::ServiceEntry>& services, bool egress);

// Splits that do less than they say: apexes that no client sees, and TCP of headless apexes.
// `services`: settled.
std::vector<Problem> check_apexes(const Table<model::ServiceEntry>& services,
                                  const Table<smi::TrafficSplit>& splits, bool permissive);

// The entry in `services`, which are ordered by name; null: it is not there.
model::ServiceEntry* find_service(std::vector<model::ServiceEntry>& services,
                                  const ServiceName& name);

}  // namespace osm::inline v1::catalog
