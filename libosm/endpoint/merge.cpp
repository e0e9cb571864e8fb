#include "endpoint/merge.hpp"

#include <algorithm>
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
          .object = {"Service", service.ns, service.name},
          .path = {},
          .field = {},
          .cause = "endpoint " + endpoint.address + ':' + std::to_string(number(endpoint.port)) +
                   " is " + kept.identity.str() + " to endpoints provider " + *kept.provider +
                   " but " + endpoint.identity.str() + " to endpoints provider " + provider +
                   "; the first is used: correct the account in one of them"};
}

// Collects one provider's invalid endpoints: one problem per cause, whatever their number.
class LeftOut {
 public:
  LeftOut(const ServiceName& service, const std::string& provider)
      : service_(service), provider_(provider) {}

  void add(const Endpoint& endpoint, const Error& why) {
    if (++counts_[why.code] > 1) return;
    firsts_[why.code] = "an endpoint at port " + std::to_string(number(endpoint.port)) +
                        " that endpoints provider " + provider_ +
                        " lists is left out: " + why.message;
  }

  void report(std::set<Problem>& problems) const {
    for (const auto& [code, first] : firsts_) {
      const std::size_t more = counts_.at(code) - 1;
      problems.insert(
          {.code = code,
           .object = {"Service", service_.ns, service_.name},
           .path = {},
           .field = {},
           .cause = more == 0 ? first : first + " (and " + std::to_string(more) + " more)"});
    }
  }

 private:
  const ServiceName& service_;
  const std::string& provider_;
  std::map<ErrorCode, std::size_t> counts_;
  std::map<ErrorCode, std::string> firsts_;
};

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

MergedService merge_answers(const ServiceName& service, const std::vector<ProviderAnswer>& answers,
                            const std::set<std::string>& monitored_namespaces) {
  std::map<std::pair<std::string, Port>, Claim> claims;
  std::map<std::tuple<std::string, Port, std::string>, Endpoint> merged;
  std::set<Problem> problems;
  for (const ProviderAnswer& answer : answers) {
    std::vector<Endpoint> endpoints = answer.endpoints;
    std::sort(endpoints.begin(), endpoints.end());
    LeftOut left_out(service, answer.provider);
    for (Endpoint& endpoint : endpoints) {
      if (const Status valid = check_endpoint(service, endpoint); !valid.ok()) {
        left_out.add(endpoint, valid.error());
        continue;
      }
      if (!monitored_namespaces.contains(endpoint.identity.ns)) continue;
      const auto [claim, first] = claims.try_emplace({endpoint.address, endpoint.port},
                                                     Claim{endpoint.identity, &answer.provider});
      if (!first && claim->second.identity != endpoint.identity) {
        problems.insert(conflict(service, endpoint, claim->second, answer.provider));
        continue;
      }
      merged.try_emplace({endpoint.address, endpoint.port, endpoint.service_port},
                         std::move(endpoint));
    }
    left_out.report(problems);
  }
  MergedService out{.name = service, .endpoints = {}, .problems = {}};
  for (auto& [key, endpoint] : merged) out.endpoints.push_back(std::move(endpoint));
  out.problems.assign(problems.begin(), problems.end());
  return out;
}

}  // namespace osm::inline v1::endpoint
