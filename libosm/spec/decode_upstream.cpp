// UpstreamTrafficSetting, policy.openservicemesh.io/v1alpha1: checked, but without effect yet.
#include <algorithm>
#include <array>
#include <cstdint>

#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

// Status codes that Envoy can answer with.
// https://www.envoyproxy.io/docs/envoy/latest/api-v3/type/v3/http_status.proto
constexpr auto kStatusCodes = std::to_array<std::int64_t>(
    {400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421,
     422, 423, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511});

void check_count(const Field& field) { field.integer(0, UINT32_MAX); }

void check_connections(const Field& settings) {
  if (!settings.optional_map({"tcp", "http"})) return;
  if (const Field tcp = settings["tcp"]; tcp.optional_map({"maxConnections", "connectTimeout"})) {
    check_count(tcp["maxConnections"]);
    check_duration(tcp["connectTimeout"]);
  }
  const std::initializer_list<std::string_view> counts{"maxRequests", "maxRequestsPerConnection",
                                                       "maxPendingRequests", "maxRetries"};
  if (const Field http = settings["http"]; http.optional_map(counts))
    for (const std::string_view count : counts) check_count(http[count]);
}

// Checks a rate: `amount` per unit, and the burst.
void check_rate(const Field& limit, std::string_view amount) {
  limit[amount].required().integer(1, UINT32_MAX);
  choice_of(limit["unit"].required(), {"second", "minute", "hour"});
  check_count(limit["burst"]);
}

void check_header(const Field& field) {
  if (!field.required_map({"name", "value"})) return;
  const auto name = field["name"].required_text();
  if (!name.empty() && !is_header_name(name)) field["name"].refuse("not an HTTP header name");
  const Field value = field["value"];
  if (value.required().text().value_or("").find_first_of(std::string_view("\r\n\0", 3)) !=
      std::string::npos)
    value.refuse("must be one line");
}

void check_http_limit(const Field& limit) {
  if (!limit.optional_map(
          {"requests", "unit", "burst", "responseStatusCode", "responseHeadersToAdd"}))
    return;
  check_rate(limit, "requests");
  const Field status = limit["responseStatusCode"];
  const auto code = status.integer(400, 599);
  if (code && std::find(kStatusCodes.begin(), kStatusCodes.end(), *code) == kStatusCodes.end())
    status.refuse("is no status code that Envoy can answer with; use one such as 429 or 503");
  for (const Field& field : limit["responseHeadersToAdd"].list()) check_header(field);
}

// The local rate limit. If there is none, it and all its members are absent.
Field local_of(const Field& limits) {
  limits.optional_map({"local"});
  return limits["local"];
}

void check_rate_limit(const Field& limits) {
  const Field local = local_of(limits);
  local.optional_map({"tcp", "http"});
  if (const Field tcp = local["tcp"]; tcp.optional_map({"connections", "unit", "burst"}))
    check_rate(tcp, "connections");
  check_http_limit(local["http"]);
}

void check_routes(const Field& routes) {
  int cost = 0;
  for (const Field& route : routes.list()) {
    if (!route.required_map({"path", "rateLimit"})) continue;
    if (const std::string path = route["path"].required_text(); !path.empty())
      check_regex(route["path"], path, cost);
    check_http_limit(local_of(route["rateLimit"]));
  }
  if (cost > kMaxObjectProgram)
    routes.refuse("the paths together are too costly; simplify them, or split the object",
                  ErrorCode::kInvalidRegex);
}

}  // namespace

CheckedPolicy check_upstream_traffic_setting(const Field& spec) {
  if (!spec.required_map({"host", "connectionSettings", "rateLimit", "httpRoutes"})) return {};
  const Field field = spec["host"];
  const std::string host = field.required_text();
  if (!host.empty() && (!is_dns_subdomain(host) || host.find('.') == std::string::npos))
    field.refuse("must be a Service's name with its namespace, such as api.shop.svc.cluster.local");
  check_connections(spec["connectionSettings"]);
  check_rate_limit(spec["rateLimit"]);
  check_routes(spec["httpRoutes"]);
  return {{{"spec.host", "host " + host}}};
}

}  // namespace osm::inline v1::spec
