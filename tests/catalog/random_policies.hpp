// One policy of each kind that OSM has, over few names, so that policies of random meshes meet.
#pragma once

#include <chrono>
#include <string>

#include "osm/object.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/policy.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/telemetry.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::testing {

inline constexpr GroupKind kRandomPolicies[] = {kinds::kRetry, kinds::kEgress,
                                                kinds::kIngressBackend,
                                                kinds::kUpstreamTrafficSetting, kinds::kTelemetry};

// A policy `name` of namespace `ns`. `pick(n)`: a number below n; `account` and `service`: names.
template <class Pick, class Name, class OtherName>
Policy random_policy(const GroupKind& kind, const std::string& ns, const std::string& name,
                     Pick pick, Name account, OtherName service) {
  using std::chrono::seconds;
  const ObjectKey key{kind, ns, name};
  const ServiceName server{ns, service()};
  const ServiceIdentity client{ns, account()};
  if (kind == kinds::kRetry)
    return {key, Retry{client, {server}, {"5xx", 2, seconds(1), seconds(1)}}};
  if (kind == kinds::kEgress) {
    Egress egress;
    egress.sources = {client};
    egress.hosts = {{{pick(2) ? "a.example" : "*.example", {}}}};
    egress.ports = {pick(2) ? EgressPort{Port{80}, EgressProtocol::kHttp}
                            : EgressPort{Port{443}, EgressProtocol::kHttps}};
    if (pick(2)) egress.route_groups = {service()};
    return {key, egress};
  }
  if (kind == kinds::kIngressBackend) {
    IngressBackend ingress;
    ingress.backends = {{server, Port(static_cast<std::uint16_t>(8080 + pick(2))), {}}};
    ingress.networks = {"10.9.0.0/16"};
    ingress.limits_addresses = true;
    return {key, ingress};
  }
  if (kind == kinds::kTelemetry) {
    Telemetry telemetry;
    telemetry.format = {AccessLogFormat::Kind::kText, name};
    return {key, telemetry};
  }
  UpstreamTrafficSetting setting;
  setting.service = server;
  if (pick(2)) setting.limits.http = HttpLocalRateLimit{{1, seconds(1), 0}, 429, {}};
  if (pick(2)) setting.limits.paths = {{"/a/.*", HttpLocalRateLimit{{2, seconds(1), 0}, 429, {}}}};
  if (pick(2)) setting.limits.connections.max_connections = 7;
  return {key, setting};
}

}  // namespace osm::inline v1::testing
