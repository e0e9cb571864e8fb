// Resolves TrafficTargets and route objects into the permissions of each identity. Pure.
//
// TCP needs a TCPRoute rule, and the ports of TCPRoutes bound the target's HTTP grants too.
// A TCPRoute that is missing withholds the whole target: nobody knows the ports that it allows.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"

namespace osm::inline v1::catalog {

// The requests of one match of a group.
RoutePolicy route_policy(const smi::ObjectName& group, const smi::HttpMatch& match);

// The routes and ports that a target's rules grant, in written order, each once. A rule whose
// HTTPRouteGroup or match is missing grants nothing; a target with a missing TCPRoute grants
// nothing at all. The specification reports what is missing. `objects`: has the routes.
model::TargetEntry resolve_target(const smi::TrafficTarget& target, const SpecSnapshot& objects);

// Index of services and targets by identity, to find everything that a change concerns without a
// scan.
class PolicyIndex {
 public:
  PolicyIndex() = default;
  PolicyIndex(const Table<model::TargetEntry>& targets, const Table<model::ServiceEntry>& services);

  using Targets = std::vector<std::shared_ptr<const model::TargetEntry>>;  // ordered by name
  const Targets& with_source(const ServiceIdentity& identity) const;
  const Targets& with_destination(const ServiceIdentity& identity) const;
  // The sources of targets that grant something, and whose destinations are among the accounts or
  // in one of the namespaces.
  std::set<ServiceIdentity> clients_of(const std::set<ServiceIdentity>& accounts,
                                       const std::set<std::string>& namespaces) const;

  using Services = std::vector<std::shared_ptr<const model::ServiceEntry>>;  // ordered by name
  // The services that an account runs.
  const Services& services_of(const ServiceIdentity& identity) const;
  // The idle services of a namespace.
  const Services& idle_in(const std::string& ns) const;
  // True if a target names the identity.
  bool names(const ServiceIdentity& identity) const {
    return by_source_.contains(identity) || by_destination_.contains(identity);
  }

 private:
  std::map<ServiceIdentity, Targets> by_source_;
  std::map<ServiceIdentity, Targets> by_destination_;
  std::map<ServiceIdentity, Services> services_;
  std::map<std::string, Services> idle_;  // by namespace
};

// Permissions of `identity` under SMI. Upstreams are the services of the destinations that it may
// call, and the idle services of their namespaces, which may be theirs. Backends of
// visible apexes are added with their permitted part, but cannot be dialled. `denied` accounts are
// no sources; `services` do not have them anyway.
model::IdentityPolicy resolve_policy(const ServiceIdentity& identity, const PolicyIndex& index,
                                     const Table<model::ServiceEntry>& services,
                                     const Denials& denied = {});

// Upstreams in permissive mode: every service with all its identities. With `egress`, clients reach
// services outside of the mesh past it, so these are left out, unless a split leads back.
std::vector<model::Upstream> resolve_permissive(const Table<model::ServiceEntry>& services,
                                                bool egress);

}  // namespace osm::inline v1::catalog
