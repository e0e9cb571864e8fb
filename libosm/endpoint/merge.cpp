#include "endpoint/merge.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace osm::inline v1::endpoint {
namespace {

struct Claim {
  ServiceIdentity identity;
  const std::string* provider;
};

Problem conflict(const ServiceName& service, const Endpoint& endpoint, const Claim& kept,
                 const std::string& provider) {
  return {.code = ErrorCode::kConflictingAddress,
          .object = {kinds::kService, service.ns, service.name},
          .path = {},
          .field = {},
          .cause = "endpoint " + endpoint.address + ':' + std::to_string(number(endpoint.port)) +
                   " is " + kept.identity.str() + " to endpoints provider " + *kept.provider +
                   " but " + endpoint.identity.str() + " to endpoints provider " + provider +
                   "; the first is used: correct the account in one of them"};
}

using Place = std::tuple<const std::string&, Port, const std::string&>;
Place place_of(const Endpoint& one) { return {one.address, one.port, one.service_port}; }

// One provider's invalid endpoints, by cause: one problem for each, whatever their number.
struct LeftOut {
  std::string first;
  std::size_t count = 0;
};

// Beyond 32 bits the largest weight is used.
std::uint32_t times(std::uint32_t weight, std::uint32_t factor) {
  const std::uint64_t product = std::uint64_t{weight} * factor;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(product, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

std::vector<ServiceIdentity> MergedService::identities() const {
  std::set<ServiceIdentity> unique;
  for (const Endpoint& endpoint : endpoints) unique.insert(endpoint.identity);
  return {unique.begin(), unique.end()};
}

std::vector<Endpoint> MergedService::healthy_endpoints() const {
  std::vector<Endpoint> healthy;
  std::copy_if(endpoints.begin(), endpoints.end(), std::back_inserter(healthy),
               [](const Endpoint& endpoint) { return endpoint.healthy; });
  return healthy;
}

MergedService MergedService::without(const std::function<bool(const Endpoint&)>& left_out) const {
  MergedService rest{.name = name,
                     .endpoints = {},
                     .providers = {},
                     .served_outside = served_outside,
                     .problems = problems};
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    if (left_out(endpoints[i])) continue;
    rest.endpoints.push_back(endpoints[i]);
    rest.providers.push_back(providers[i]);
  }
  return rest;
}

std::string MergedService::provider_of(const Endpoint& endpoint) const {
  const auto at = std::lower_bound(
      endpoints.begin(), endpoints.end(), endpoint,
      [](const Endpoint& a, const Endpoint& b) { return place_of(a) < place_of(b); });
  if (at == endpoints.end() || place_of(*at) != place_of(endpoint)) return {};
  return providers[static_cast<std::size_t>(at - endpoints.begin())];
}

MergedService merge_answers(const ServiceName& service, const std::vector<ProviderAnswer>& answers,
                            const std::set<std::string>& monitored_namespaces) {
  std::map<std::pair<std::string, Port>, Claim> claims;
  struct Listed {
    Endpoint endpoint;
    const std::string* provider;
  };
  std::map<std::tuple<std::string, Port, std::string>, Listed> merged;
  std::set<Problem> problems;
  for (const ProviderAnswer& answer : answers) {
    std::vector<Endpoint> endpoints = answer.endpoints;
    std::sort(endpoints.begin(), endpoints.end());
    std::map<ErrorCode, LeftOut> left_out;
    for (Endpoint& endpoint : endpoints) {
      if (const Status valid = check_endpoint(service, endpoint); !valid.ok()) {
        auto& [text, count] = left_out[valid.error().code];
        if (count++ == 0)
          text = "an endpoint at port " + std::to_string(number(endpoint.port)) +
                 " that endpoints provider " + answer.provider +
                 " lists is left out: " + valid.error().message;
        continue;
      }
      if (!monitored_namespaces.contains(endpoint.identity.ns)) continue;
      const auto [claim, first] = claims.try_emplace({endpoint.address, endpoint.port},
                                                     Claim{endpoint.identity, &answer.provider});
      if (!first && claim->second.identity != endpoint.identity) {
        problems.insert(conflict(service, endpoint, claim->second, answer.provider));
        continue;
      }
      if (answer.weight) endpoint.weight = times(endpoint.weight.value_or(1), *answer.weight);
      std::tuple place(endpoint.address, endpoint.port, endpoint.service_port);
      merged.try_emplace(std::move(place), Listed{std::move(endpoint), &answer.provider});
    }
    for (const auto& [code, out] : left_out)
      problems.insert(
          {.code = code,
           .object = {kinds::kService, service.ns, service.name},
           .path = {},
           .field = {},
           .cause = out.first +
                    (out.count == 1 ? "" : " (and " + std::to_string(out.count - 1) + " more)")});
  }
  MergedService all{.name = service, .endpoints = {}, .problems = {}};
  for (auto& [key, listed] : merged) {
    all.endpoints.push_back(std::move(listed.endpoint));
    all.providers.push_back(*listed.provider);
  }
  all.problems.assign(problems.begin(), problems.end());
  return all;
}

}  // namespace osm::inline v1::endpoint
