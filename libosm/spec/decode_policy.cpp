// OSM's own policies, policy.openservicemesh.io/v1alpha1: Egress and IngressBackend. They are
// checked, but have no effect yet.
#include <algorithm>
#include <array>
#include <cctype>

#include "osm/values/upstream_traffic_setting.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::string_view kRouteGroupApi = "specs.smi-spec.io/v1alpha4";
constexpr std::string_view kPolicyApi = "policy.openservicemesh.io/v1alpha1";

// Host names as clients use them, in any case: "example.com", "*.example.com", "example.com:8443".
void check_host(const Field& field) {
  std::string host = field.required_text();
  if (host.empty()) return;
  std::transform(host.begin(), host.end(), host.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view name = host;
  if (name.substr(0, 2) == "*.") name.remove_prefix(2);
  const auto colon = name.rfind(':');
  const bool good_port =
      colon == std::string_view::npos ||
      (colon + 1 < name.size() && name.find_first_not_of("0123456789", colon + 1) == name.npos);
  if (!good_port || !is_dns_subdomain(name.substr(0, colon)))
    field.refuse(
        "must be a host such as example.com, *.example.com or example.com:8443, without scheme "
        "and path");
}

struct Reference {
  std::string api;
  std::string kind;
};

// One of spec.matches.
Reference reference_of(const Field& field) {
  if (!field.required_map({"apiGroup", "kind", "name"})) return {};
  required_subdomain(field["name"]);
  return {field["apiGroup"].required_text(), field["kind"].required_text()};
}

void check_egress_port(const Field& field) {
  if (!field.required_map({"number", "protocol"})) return;
  field["number"].required().port();
  choice_of(field["protocol"].required(), {"http", "https", "tcp", "tcp-server-first"});
}

void check_egress_matches(const Field& matches) {
  bool seen = false;  // an UpstreamTrafficSetting
  for (const Field& field : matches.list()) {
    const auto [api, kind] = reference_of(field);
    if (api.empty() || kind.empty()) continue;
    const bool setting = api == kPolicyApi && kind == kinds::kUpstreamTrafficSetting.kind;
    if (!setting && !(api == kRouteGroupApi && kind == kinds::kHttpRouteGroup.kind))
      field.refuse("must be an HTTPRouteGroup of " + std::string(kRouteGroupApi) +
                   " or an UpstreamTrafficSetting of " + std::string(kPolicyApi));
    if (setting && seen)
      field.refuse("is the second UpstreamTrafficSetting; an Egress has one at most");
    seen = seen || setting;
  }
}

enum class SourceKind { kService, kIpRange, kPrincipal };

SourceKind check_ingress_source(const Field& field) {
  if (!field.required_map({"kind", "name", "namespace"})) return SourceKind::kService;
  const SourceKind kind = choice_of(field["kind"].required(),
                                    {{kinds::kService.kind, SourceKind::kService},
                                     {"IPRange", SourceKind::kIpRange},
                                     {"AuthenticatedPrincipal", SourceKind::kPrincipal}},
                                    SourceKind::kPrincipal);
  if (kind == SourceKind::kService) {
    required_label(field["name"]);
    required_label(field["namespace"]);
  } else if (kind == SourceKind::kIpRange) {
    required_network(field["name"]);
  } else {
    field["name"].required_text();
  }
  return kind;
}

struct IngressTls {
  bool https = false;
  bool asks_for_certificate = true;
};

// Refuses names that occur twice; adds the others to `claims`.
IngressTls check_backend(const Field& field, std::vector<CheckedPolicy::Claim>& claims) {
  IngressTls tls;
  if (!field.required_map({"name", "port", "tls"})) return tls;
  const std::string name = required_label(field["name"]);
  const Field port = field["port"];
  std::optional<Port> port_number;
  if (port.required_map({"number", "protocol"})) {
    port_number = port["number"].required().port();
    tls.https = choice_of(port["protocol"].required(), {"http", "https"}) == 1;
  }
  const Field settings = field["tls"];
  if (settings.optional_map({"skipClientCertValidation", "sniHosts"})) {
    tls.asks_for_certificate =
        !settings["skipClientCertValidation"].required().boolean().value_or(false);
    for (const Field& host : settings["sniHosts"].list()) check_host(host);
  }
  if (name.empty() || !port_number) return tls;
  CheckedPolicy::Claim claim{field.path(),
                             "backend " + name + " port " + std::to_string(number(*port_number))};
  const bool twice = std::any_of(claims.begin(), claims.end(),
                                 [&](const auto& other) { return other.what == claim.what; });
  if (twice) {
    field.refuse("names " + claim.what + " a second time", ErrorCode::kDuplicateObject);
  } else {
    claims.push_back(std::move(claim));
  }
  return tls;
}

CheckedPolicy check_egress(const Field& spec) {
  if (!spec.required_map({"sources", "hosts", "ipAddresses", "ports", "matches"})) return {};
  for (const Field& field : spec["sources"].required().list())
    required_reference(field, kinds::kServiceAccount);
  for (const Field& field : spec["hosts"].list()) check_host(field);
  for (const Field& field : spec["ipAddresses"].list()) required_network(field);
  for (const Field& field : spec["ports"].required().list()) check_egress_port(field);
  check_egress_matches(spec["matches"]);
  return {};
}

CheckedPolicy check_ingress_backend(const Field& spec) {
  if (!spec.required_map({"backends", "sources", "matches"})) return {};
  bool principal = false;
  for (const Field& field : spec["sources"].required().list())
    principal = check_ingress_source(field) == SourceKind::kPrincipal || principal;
  CheckedPolicy policy;
  for (const Field& field : spec["backends"].required().list()) {
    const IngressTls tls = check_backend(field, policy.claims);
    if (tls.https && tls.asks_for_certificate && !principal)
      field.refuse(
          "asks its clients for a certificate (https without tls.skipClientCertValidation), and "
          "no source names the accepted clients; add an AuthenticatedPrincipal to spec.sources");
  }
  for (const Field& field : spec["matches"].list()) reference_of(field);
  return policy;
}

}  // namespace

Decoded<CheckedPolicy> decode_policy(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  CheckedPolicy policy;
  const Field spec = reader.root()["spec"];
  if (object.key.is(kinds::kEgress)) policy = check_egress(spec);
  if (object.key.is(kinds::kIngressBackend)) policy = check_ingress_backend(spec);
  if (reader.findings().valid()) reader.findings().note("", why_unobeyed(object.key));
  return std::move(reader).finish(std::move(policy));
}

std::vector<CheckedPolicy::Claim> claims_of(const Object& object) {
  if (object.key.is(kinds::kUpstreamTrafficSetting)) {
    const auto policy = decode_upstream_traffic_setting(object).value;
    if (!policy) return {};
    return {{"spec.host", "Service " + policy->get<UpstreamTrafficSetting>()->service.str()}};
  }
  if (!object.key.is(kinds::kIngressBackend)) return {};
  const auto policy = decode_policy(object).value;
  return policy ? policy->claims : std::vector<CheckedPolicy::Claim>();
}

Problem duplicate_claim(const ObjectKey& object, const CheckedPolicy::Claim& claim,
                        const ObjectKey& other) {
  return {ErrorCode::kDuplicateObject,
          object,
          "",
          0,
          claim.field,
          claim.what + " is already in " + other.str() + "; merge the two"};
}

}  // namespace osm::inline v1::spec
