#include "translate/rbac.hpp"

#include <algorithm>

#include "translate/matchers.hpp"

namespace osm::inline v1::translate {
namespace {

namespace rbac = envoy::config::rbac::v3;

constexpr const char* kPermissivePolicy = "permissive";

// Calls `add_grant` for each policy of the class that admits somebody, unless the mesh is
// permissive.
template <class AddGrant>
Authorization authorization_of(const ClassView& view, AddGrant add_grant) {
  Authorization out{.domains = view.snapshot.allowed_domains,
                    .permissive = view.snapshot.config.proxy.permissive};
  if (out.permissive)
    for (const auto& [account, denial] : view.snapshot.denied->accounts)
      out.denied.push_back(account);
  const auto own = view.snapshot.policies.find(view.proxy_class.identity);
  if (out.permissive || !own) return out;
  for (const InboundTrafficPolicy& policy : own->inbound)
    if (!policy.sources.empty()) add_grant(policy, out.grants);
  return out;
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

rbac::Permission permission_of(const RoutePolicy& route) {
  std::vector<rbac::Permission> parts;
  if (const Pattern path = pattern_of(route.path_regex); path.kind != Pattern::Kind::kAny)
    set_string(*parts.emplace_back().mutable_url_path()->mutable_path(), path);
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

rbac::Policy policy_of(const std::vector<TrustDomain>& domains, const Grant& grant) {
  rbac::Policy policy;
  for (const TrustDomain& domain : domains)
    for (const ServiceIdentity& source : grant.sources)
      policy.add_principals()->mutable_authenticated()->mutable_principal_name()->set_exact(
          spiffe_id(domain, source).str());
  for (const RoutePolicy& route : grant.routes) *policy.add_permissions() = permission_of(route);
  if (grant.routes.empty()) policy.add_permissions()->set_any(true);
  return policy;
}

// Everybody of a trust domain except those that are denied under its names. A name of another
// domain does not match the prefix.
rbac::Policy permissive_policy(const Authorization& authorization) {
  rbac::Policy policy;
  for (const TrustDomain& domain : authorization.domains) {
    rbac::Principal everybody;
    everybody.mutable_authenticated()->mutable_principal_name()->set_prefix(
        workload_spiffe_prefix(domain));
    if (authorization.denied.empty()) {
      *policy.add_principals() = std::move(everybody);
      continue;
    }
    auto& both = *policy.add_principals()->mutable_and_ids();
    *both.add_ids() = std::move(everybody);
    auto& denied = *both.add_ids()->mutable_not_id()->mutable_or_ids();
    for (const ServiceIdentity& account : authorization.denied)
      denied.add_ids()->mutable_authenticated()->mutable_principal_name()->set_exact(
          spiffe_id(domain, account).str());
  }
  policy.add_permissions()->set_any(true);
  return policy;
}

}  // namespace

Authorization http_authorization(const ClassView& view) {
  return authorization_of(view, [](const InboundTrafficPolicy& policy, auto& grants) {
    if (!policy.http_routes.empty())
      grants.push_back({policy.target.str(), policy.sources, policy.http_routes});
  });
}

Authorization tcp_authorization(const ClassView& view, Port target_port) {
  return authorization_of(view, [&](const InboundTrafficPolicy& policy, auto& grants) {
    const auto& ports = policy.tcp_ports;
    const bool concerned =
        ports.empty() || std::find(ports.begin(), ports.end(), target_port) != ports.end();
    if (policy.tcp && concerned) grants.push_back({policy.target.str(), policy.sources, {}});
  });
}

rbac::RBAC rbac_rules(const Authorization& authorization) {
  rbac::RBAC rules;
  rules.set_action(rbac::RBAC::ALLOW);
  auto& policies = *rules.mutable_policies();
  const auto& domains = authorization.domains;
  if (authorization.permissive) policies[kPermissivePolicy] = permissive_policy(authorization);
  for (const Grant& grant : authorization.grants)
    policies[grant.target] = policy_of(domains, grant);
  return rules;
}

}  // namespace osm::inline v1::translate
