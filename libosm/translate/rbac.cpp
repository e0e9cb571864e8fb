#include "translate/rbac.hpp"

#include <algorithm>

#include "model/path_forms.hpp"

namespace osm::inline v1::translate {
namespace {

namespace rbac = envoy::config::rbac::v3;

constexpr const char* kPermissivePolicy = "permissive";
constexpr const char* kDeniedPolicy = "denied";

// Calls `add_grant` for each policy of the class that admits somebody, unless the mesh is
// permissive.
template <class AddGrant>
Authorization authorization_of(const ClassView& view, AddGrant add_grant) {
  Authorization out{.names = allowed_names(view.snapshot),
                    .permissive = view.snapshot.config.proxy.permissive};
  if (out.permissive) out.denied = denied_callers(view);
  const auto own = view.snapshot.policies.find(view.proxy_class.identity);
  if (out.permissive || !own) return out;
  for (const InboundTrafficPolicy& policy : own->inbound)
    if (!policy.sources.empty()) add_grant(policy, out.grants);
  return out;
}

// True unless the policy's TCPRoutes name ports, and not this one.
bool reaches(const InboundTrafficPolicy& policy, Port target_port) {
  const auto& ports = policy.tcp_ports;
  return ports.empty() || std::find(ports.begin(), ports.end(), target_port) != ports.end();
}

// Methods are alternatives: one permission that matches any of them.
rbac::Permission method_permission(const std::vector<std::string>& methods) {
  rbac::Permission permission;
  if (methods.size() == 1) {
    *permission.mutable_header() = method_matcher(methods.front());
  } else {
    for (const std::string& method : methods)
      *permission.mutable_or_rules()->add_rules()->mutable_header() = method_matcher(method);
  }
  return permission;
}

void add_path(const std::string& path_regex, MatchedPaths paths,
              std::vector<rbac::Permission>& parts) {
  const Pattern path = pattern_of(path_regex);
  if (path.kind == Pattern::Kind::kAny) return;
  set_string(*parts.emplace_back().mutable_url_path()->mutable_path(), path);
  if (path.kind == Pattern::Kind::kExact || paths == MatchedPaths::kAny) return;
  auto& other = *parts.emplace_back().mutable_not_rule()->mutable_url_path()->mutable_path();
  other.mutable_safe_regex()->set_regex(model::kOtherPathForms);
}

rbac::Permission permission_of(const PathMatch& route, MatchedPaths paths) {
  std::vector<rbac::Permission> parts;
  add_path(route.path, paths, parts);
  if (!route.methods.empty()) parts.push_back(method_permission(route.methods));
  for (const auto& [name, regex] : route.headers)
    *parts.emplace_back().mutable_header() = header_matcher(name, pattern_of(regex));

  rbac::Permission permission;
  if (parts.empty()) {
    permission.set_any(true);
  } else if (parts.size() == 1) {
    permission = std::move(parts.front());
  } else {
    for (rbac::Permission& part : parts)
      *permission.mutable_and_rules()->add_rules() = std::move(part);
  }
  return permission;
}

// Adds the names of the accounts in each domain. Envoy compares a principal with each URI SAN, each
// DNS SAN and the subject: no two of these name different accounts with one text.
template <class AddPrincipal>
void add_names(const PeerNames& names, const std::vector<ServiceIdentity>& accounts,
               AddPrincipal add_principal) {
  const auto add = [&](std::string name) {
    add_principal()->mutable_authenticated()->mutable_principal_name()->set_exact(std::move(name));
  };
  for (const TrustDomain& domain : names.domains) {
    for (const ServiceIdentity& account : accounts) {
      add(spiffe_id(domain, account).str());
      if (names.osm_v1) add(osm_v1_name(domain, account));
    }
  }
}

rbac::Policy policy_of(const PeerNames& names, const Grant& grant, MatchedPaths paths) {
  rbac::Policy policy;
  add_names(names, grant.sources, [&] { return policy.add_principals(); });
  for (const PathMatch& route : grant.routes)
    *policy.add_permissions() = permission_of(route, paths);
  if (grant.routes.empty()) policy.add_permissions()->set_any(true);
  return policy;
}

// Everybody of a trust domain except those that are denied under its names. A name of another
// domain does not match the prefix.
rbac::Policy permissive_policy(const Authorization& authorization) {
  rbac::Policy policy;
  const bool osm_v1 = authorization.names.osm_v1;
  for (const TrustDomain& domain : authorization.names.domains) {
    const auto add = [&](const rbac::Principal& everybody) {
      if (authorization.denied.empty()) {
        *policy.add_principals() = everybody;
        return;
      }
      auto& both = *policy.add_principals()->mutable_and_ids();
      *both.add_ids() = everybody;
      auto& denied = *both.add_ids()->mutable_not_id()->mutable_or_ids();
      add_names({{domain}, osm_v1}, authorization.denied, [&] { return denied.add_ids(); });
    };
    rbac::Principal everybody;
    auto& name = *everybody.mutable_authenticated()->mutable_principal_name();
    name.set_prefix(workload_spiffe_prefix(domain));
    add(everybody);
    if (!osm_v1) continue;
    name.mutable_safe_regex()->set_regex(model::service_name_pattern(domain));
    add(everybody);
  }
  policy.add_permissions()->set_any(true);
  return policy;
}

}  // namespace

std::vector<ServiceIdentity> denied_callers(const ClassView& view) {
  std::vector<ServiceIdentity> out;
  if (view.snapshot.config.proxy.permissive) {
    for (const auto& [account, denial] : view.snapshot.denied->accounts) out.push_back(account);
  } else if (const auto own = view.snapshot.policies.find(view.proxy_class.identity)) {
    out = own->denied;
  }
  return out;
}

rbac::RBAC rbac_denials(const PeerNames& names, const std::vector<ServiceIdentity>& denied) {
  rbac::RBAC rules;
  rules.set_action(rbac::RBAC::DENY);
  rbac::Policy& policy = (*rules.mutable_policies())[kDeniedPolicy];
  add_names(names, denied, [&] { return policy.add_principals(); });
  policy.add_permissions()->set_any(true);
  return rules;
}

Authorization http_authorization(const ClassView& view, Port target_port) {
  return authorization_of(view, [&](const InboundTrafficPolicy& policy, auto& grants) {
    if (policy.http_routes.empty() || !reaches(policy, target_port)) return;
    Grant& grant = grants.emplace_back(Grant{policy.target.str(), policy.sources, {}});
    for (const RoutePolicy& route : policy.http_routes)
      grant.routes.push_back(PathMatch::of(route));
  });
}

Authorization tcp_authorization(const ClassView& view, Port target_port) {
  return authorization_of(view, [&](const InboundTrafficPolicy& policy, auto& grants) {
    if (policy.tcp && reaches(policy, target_port))
      grants.push_back({policy.target.str(), policy.sources, {}});
  });
}

rbac::RBAC rbac_rules(const Authorization& authorization, MatchedPaths paths) {
  rbac::RBAC rules;
  rules.set_action(rbac::RBAC::ALLOW);
  auto& policies = *rules.mutable_policies();
  if (authorization.permissive) policies[kPermissivePolicy] = permissive_policy(authorization);
  for (const Grant& grant : authorization.grants)
    policies[grant.target] = policy_of(authorization.names, grant, paths);
  return rules;
}

}  // namespace osm::inline v1::translate
