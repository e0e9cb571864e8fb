// Merges several providers' answers about one service. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "osm/object.hpp"
#include "osm/values/endpoint.hpp"

namespace osm::inline v1::endpoint {

// One provider's answer about one service.
struct ProviderAnswer {
  std::string provider;  // its id
  std::vector<Endpoint> endpoints;
  std::optional<std::uint32_t> weight{};  // ServiceProvider::Provider::weight
};

// Merged answers about a service that at least one provider knows.
struct MergedService {
  ServiceName name;
  // Healthy or not, with identities of the service's own namespace, if that is monitored. Ordered
  // by address, port and service port, which together are unique; an (address, port) has one
  // identity.
  std::vector<Endpoint> endpoints;
  // Ids of the endpoints' providers, in their order: the first in precedence of those that list it.
  std::vector<std::string> providers{};
  // True if others serve it, too, to whom the mesh does not send: workloads outside of the mesh.
  bool served_outside = false;
  std::vector<Problem> problems{};  // ordered

  // Accounts behind the service, ordered, unique. Unhealthy endpoints count: clients must expect
  // their identities before they recover.
  std::vector<ServiceIdentity> identities() const;
  // The endpoints that may get traffic.
  std::vector<Endpoint> healthy_endpoints() const;
  // The same without endpoints for which `left_out` is true.
  MergedService without(const std::function<bool(const Endpoint&)>& left_out) const;
  // The provider of what is at the address, port and service port of `endpoint`. Empty: nothing is.
  std::string provider_of(const Endpoint& endpoint) const;

  friend bool operator==(const MergedService&, const MergedService&) = default;
};

// Merges `answers`, which are in the order of precedence: where two disagree, the first wins. The
// order of endpoints inside an answer does not matter. Endpoints that check_endpoint() refuses are
// left out and reported.
MergedService merge_answers(const ServiceName& service, const std::vector<ProviderAnswer>& answers,
                            const std::set<std::string>& monitored_namespaces);

}  // namespace osm::inline v1::endpoint
