// TrafficTargets and route objects → what each identity may do. Pure.
//
// TCP needs a TCPRoute rule: a target with HTTP rules only opens no TCP port (docs/adr/0004).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"

namespace osm::inline v1::catalog {

struct RouteObjects {
  std::map<smi::ObjectName, std::shared_ptr<const smi::HttpRouteGroup>> http;
  std::map<smi::ObjectName, std::shared_ptr<const smi::TcpRoute>> tcp;
};

// The routes and ports a target's rules grant, in the order they are written, each once. A rule
// whose route object or match is missing contributes nothing; the specification reports it.
model::TargetEntry resolve_target(const smi::TrafficTarget& target, const RouteObjects& routes);

// Whom a change concerns and what an identity is connected with, without scanning.
class PolicyIndex {
 public:
  PolicyIndex() = default;
  PolicyIndex(const model::Table<model::TargetEntry>& targets,
              const model::Table<model::ServiceEntry>& services);

  using Targets = std::vector<std::shared_ptr<const model::TargetEntry>>;  // ordered by name
  const Targets& with_source(const ServiceIdentity& identity) const;
  const Targets& with_destination(const ServiceIdentity& identity) const;
  // The services an account runs, ordered by name.
  const std::vector<std::shared_ptr<const model::ServiceEntry>>& services_of(
      const ServiceIdentity& identity) const;
  // Whether a target names it.
  bool names(const ServiceIdentity& identity) const {
    return by_source_.contains(identity) || by_destination_.contains(identity);
  }

 private:
  std::map<ServiceIdentity, Targets> by_source_;
  std::map<ServiceIdentity, Targets> by_destination_;
  std::map<ServiceIdentity, std::vector<std::shared_ptr<const model::ServiceEntry>>> services_;
};

// What SMI lets `identity` do. Upstreams are the services of the destinations it may call; backends
// that a visible apex splits to are added, not dialled, with what of them it may call.
model::IdentityPolicy resolve_policy(const ServiceIdentity& identity, const PolicyIndex& index,
                                     const model::Table<model::ServiceEntry>& services);

// Every service, whole.
std::vector<model::Upstream> resolve_permissive(const model::Table<model::ServiceEntry>& services);

}  // namespace osm::inline v1::catalog
