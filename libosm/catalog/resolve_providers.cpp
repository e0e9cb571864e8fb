#include "catalog/resolve_providers.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::catalog {
namespace {

// The object whose order is used, for each Service.
std::map<ServiceName, ObjectKey> provider_owners(const Table<Policy>& policies) {
  std::map<ServiceName, ObjectKey> owners;
  for (const auto& policy : policies)
    if (const auto* order = policy->get<ServiceProvider>())
      owners.try_emplace(order->service, policy->key);
  return owners;
}

}  // namespace

std::map<ServiceName, ServiceProvider> provider_orders(const Table<Policy>& policies) {
  std::map<ServiceName, ServiceProvider> orders;
  for (const auto& policy : policies)
    if (const auto* order = policy->get<ServiceProvider>())
      orders.try_emplace(order->service, *order);
  return orders;
}

void set_order_origins(const Table<Policy>& policies, std::vector<model::ServiceEntry>& services) {
  const auto owners = provider_owners(policies);
  for (model::ServiceEntry& service : services)
    if (const ObjectKey* owner = find_in(owners, service.name))
      service.order_origin = {*owner, "spec.providers"};
}

std::vector<Problem> check_provider_orders(const SpecSnapshot& objects,
                                           const std::vector<ProviderStatus>& providers) {
  std::vector<Problem> problems;
  const std::map<ServiceName, ObjectKey> owners = provider_owners(objects.policies);
  std::string known;
  for (const ProviderStatus& provider : providers)
    known.append(known.empty() ? "" : ", ").append(provider.id);
  for (const auto& policy : objects.policies) {
    const auto* order = policy->get<ServiceProvider>();
    if (order == nullptr) continue;
    const auto report = [&](ErrorCode code, std::string field, std::string cause) {
      problems.push_back({.code = code,
                          .object = policy->key,
                          .path = {},
                          .field = std::move(field),
                          .cause = std::move(cause)});
    };
    const std::string service = order->service.str();
    if (const ObjectKey& owner = owners.at(order->service); owner != policy->key) {
      report(ErrorCode::kDuplicateObject, "spec.service",
             owner.str() + " already orders the providers of Service " + service +
                 " and is used; merge the two");
      continue;
    }
    if (!objects.services.find(order->service))
      report(ErrorCode::kDanglingReference, "spec.service",
             "Service " + service + " is not there, or is invalid and left out");
    for (std::size_t i = 0; i < order->providers.size(); ++i) {
      const std::string& id = order->providers[i].id;
      const auto named = [&](const ProviderStatus& provider) { return provider.id == id; };
      if (std::none_of(providers.begin(), providers.end(), named))
        report(ErrorCode::kDanglingReference, "spec.providers[" + std::to_string(i) + "].name",
               "this controller has no endpoints provider " + id + "; it has " + known);
    }
  }
  return problems;
}

}  // namespace osm::inline v1::catalog
