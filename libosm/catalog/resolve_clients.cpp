#include "catalog/resolve_clients.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "model/claims.hpp"
#include "osm/values/retry.hpp"

namespace osm::inline v1::catalog {
namespace {

// Reason why retries of requests to the service have no effect; nullopt: they have one.
std::optional<std::pair<ErrorCode, std::string>> why_idle(
    const ServiceName& name, const Table<model::ServiceEntry>& services) {
  const auto service = services.find(name);
  if (!service)
    return std::pair(ErrorCode::kDanglingReference,
                     "Service " + name.str() + " is not there, or is invalid and left out");
  const bool http = std::any_of(service->ports.begin(), service->ports.end(),
                                [](const MeshService& port) { return is_http(port.protocol); });
  if (http) return std::nullopt;
  return std::pair(ErrorCode::kUnusedField,
                   "Service " + name.str() +
                       " has no HTTP port, and only requests are sent again: a TCP connection is "
                       "not opened anew");
}

}  // namespace

ResolvedClients resolve_clients(const Table<Policy>& policies,
                                const Table<model::ServiceEntry>& services, bool obeyed) {
  ResolvedClients out;
  std::map<ServiceIdentity, model::ClientPolicy> clients;
  model::Owners owners;
  for (const auto& policy : policies) {
    const auto* retry = policy->get<Retry>();
    if (retry == nullptr) continue;
    const auto report = [&](ErrorCode code, std::string field, std::string cause) {
      out.problems.push_back({.code = code,
                              .object = policy->key,
                              .path = {},
                              .field = std::move(field),
                              .cause = std::move(cause)});
    };
    if (!obeyed) {
      report(ErrorCode::kUnusedField, "",
             "has no effect: set MeshConfig's spec.featureFlags.enableRetryPolicy to true");
      continue;
    }
    for (const model::Claim& claim : model::links_of(*policy).claims) {
      if (!owners.take(policy->key, claim, out.problems)) continue;
      auto why = why_idle(claim.service, services);
      const bool in_force = !why;
      if (why) report(why->first, claim.field, std::move(why->second));
      model::ClientPolicy& client = clients[retry->source];
      client.identity = retry->source;
      client.retries.emplace(
          claim.service,
          model::ResolvedRetry{retry->policy, {policy->key, "spec.retryPolicy", in_force}});
    }
  }
  for (auto& [identity, client] : clients) out.clients.push_back(std::move(client));
  return out;
}

}  // namespace osm::inline v1::catalog
