// Several providers' answers about one service → one. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "osm/object.hpp"
#include "osm/values/endpoint.hpp"

namespace osm::inline v1::endpoint {

// What one provider said about one service.
struct ProviderAnswer {
  std::string provider;  // its id
  std::vector<Endpoint> endpoints;
};

// What is known of one service that at least one provider knows.
struct MergedService {
  ServiceName name;
  // Healthy or not; identities of the service's own namespace, if monitored, only. Ordered by
  // address, port and service port, which together are unique; an (address, port) has one identity.
  std::vector<Endpoint> endpoints;
  std::vector<Problem> problems;  // ordered

  // The accounts behind the service, ordered, unique. Unhealthy endpoints count: their identities
  // must be expected by clients before they recover.
  std::vector<ServiceIdentity> identities() const;
  // What may be sent traffic.
  std::vector<Endpoint> healthy_endpoints() const;

  friend bool operator==(const MergedService&, const MergedService&) = default;
};

// `answers` in the configured order of their providers: where two disagree, the first wins. The
// order of endpoints inside an answer does not matter. What check_endpoint() refuses is left out
// and reported.
MergedService merge_answers(const ServiceName& service, const std::vector<ProviderAnswer>& answers,
                            const std::set<std::string>& monitored_namespaces);

}  // namespace osm::inline v1::endpoint
