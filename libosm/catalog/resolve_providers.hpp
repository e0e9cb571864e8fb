// Declared orders of endpoints providers, from ServiceProviders. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/object.hpp"
#include "osm/values/service_provider.hpp"

namespace osm::inline v1::catalog {

// The order for each Service. If two objects name one Service, the first by key is used.
std::map<ServiceName, ServiceProvider> provider_orders(const Table<Policy>& policies);

// Sets the origin of each Service's order.
void set_order_origins(const Table<Policy>& policies, std::vector<model::ServiceEntry>& services);

// Orders that are not used, or only in part: a second one for a Service, a Service that is missing,
// and names of providers that are none of `providers`.
std::vector<Problem> check_provider_orders(const SpecSnapshot& objects,
                                           const std::vector<ProviderStatus>& providers);

}  // namespace osm::inline v1::catalog
