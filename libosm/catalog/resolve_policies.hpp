// Resolves TrafficTargets and route objects into the permissions of each identity. Pure.
//
// TCP needs a TCPRoute rule: a target with only HTTP rules opens no TCP port (docs/adr/0004).
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

// The routes and ports that a target's rules grant, in written order, each once. A rule whose route
// object or match is missing grants nothing; the specification reports it.
model::TargetEntry resolve_target(const smi::TrafficTarget& target, const RouteObjects& routes);

// Index of services and targets by identity, to find everything that a change concerns without a
// scan.
class PolicyIndex {
 public:
  PolicyIndex() = default;
  PolicyIndex(const model::Table<model::TargetEntry>& targets,
              const model::Table<model::ServiceEntry>& services);

  using Targets = std::vector<std::shared_ptr<const model::TargetEntry>>;  // ordered by name
  const Targets& with_source(const ServiceIdentity& identity) const;
  const Targets& with_destination(const ServiceIdentity& identity) const;
  // The services that an account runs, ordered by name.
  const std::vector<std::shared_ptr<const model::ServiceEntry>>& services_of(
      const ServiceIdentity& identity) const;
  // True if a target names the identity.
  bool names(const ServiceIdentity& identity) const {
    return by_source_.contains(identity) || by_destination_.contains(identity);
  }

 private:
  std::map<ServiceIdentity, Targets> by_source_;
  std::map<ServiceIdentity, Targets> by_destination_;
  std::map<ServiceIdentity, std::vector<std::shared_ptr<const model::ServiceEntry>>> services_;
};

// Permissions of `identity` under SMI. Upstreams are the services of the destinations that it may
// call. Backends of visible apexes are added with their permitted part, but cannot be dialled.
// `denied` accounts are no sources; `services` do not have them anyway.
model::IdentityPolicy resolve_policy(const ServiceIdentity& identity, const PolicyIndex& index,
                                     const model::Table<model::ServiceEntry>& services,
                                     const Denials& denied = {});

// Upstreams in permissive mode: every service with all its identities.
std::vector<model::Upstream> resolve_permissive(const model::Table<model::ServiceEntry>& services);

}  // namespace osm::inline v1::catalog
