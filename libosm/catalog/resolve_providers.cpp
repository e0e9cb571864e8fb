#include "catalog/resolve_providers.hpp"

#include <algorithm>
#include <utility>

#include "catalog/resolve_services.hpp"
#include "model/claims.hpp"

namespace osm::inline v1::catalog {

std::map<ServiceName, ServiceProvider> provider_orders(const Table<Policy>& policies) {
  std::map<ServiceName, ServiceProvider> orders;
  for (const auto& policy : policies)
    if (const auto* order = policy->get<ServiceProvider>())
      orders.try_emplace(order->service, *order);
  return orders;
}

void set_order_origins(const Table<Policy>& policies, std::vector<model::ServiceEntry>& services) {
  for (const auto& policy : policies)
    if (const auto* order = policy->get<ServiceProvider>())
      if (auto* service = find_service(services, order->service);
          service != nullptr && service->order_origin.object == ObjectKey())
        service->order_origin = {policy->key, "spec.providers"};
}

std::vector<Problem> check_provider_orders(const SpecSnapshot& objects,
                                           const std::vector<ProviderStatus>& providers) {
  std::vector<Problem> problems;
  model::Owners owners;
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
    if (!owners.take(policy->key, model::links_of(*policy).claims.front(), problems)) continue;
    if (!objects.services.find(order->service))
      report(ErrorCode::kDanglingReference, "spec.service",
             "Service " + order->service.str() + " is not there, or is invalid and left out");
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
