// Who may do what at a server: an Authorization, and its form as Envoy RBAC.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "envoy/config/rbac/v3/rbac.pb.h"
#include "osm/values/traffic_policy.hpp"
#include "translate/class_view.hpp"

namespace osm::inline v1::translate {

// What one TrafficTarget allows.
struct Grant {
  std::string target;                    // "ns/name": the policy's key
  std::vector<ServiceIdentity> sources;  // never empty: a grant to nobody is no grant
  std::vector<RoutePolicy> routes;       // HTTP only: any of them; TCP: none

  auto fields() const { return std::tie(target, sources, routes); }
};

struct Authorization {
  std::vector<TrustDomain> domains{};  // of the identities that it speaks of
  bool permissive = false;             // any workload of these may do anything
  std::vector<Grant> grants{};  // ordered by target; else these; none: nobody may do anything

  auto fields() const { return std::tie(domains, permissive, grants); }
};

// Of the class's own services: the same on every HTTP port; on a TCP port, the targets whose
// TCPRoutes name it or no port.
Authorization http_authorization(const ClassView& view);
Authorization tcp_authorization(const ClassView& view, Port target_port);

// ALLOW with a policy per grant. Overlapping grants add up: a request passes when any policy
// matches. Rules without policies deny everything.
envoy::config::rbac::v3::RBAC rbac_rules(const Authorization& authorization);

}  // namespace osm::inline v1::translate
