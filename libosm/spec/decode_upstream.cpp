// UpstreamTrafficSetting, policy.openservicemesh.io/v1alpha1: checked, but without effect yet.
#include <algorithm>
#include <array>
#include <cstdint>

#include "spec/choice.hpp"
#include "spec/decoder.hpp"
#include "spec/field_texts.hpp"

namespace osm::inline v1::spec {
namespace {

// Limit for all paths of one object; equal to that of an HTTPRouteGroup.
constexpr int kMostProgram = 50'000;

// Status codes that Envoy can answer with.
// https://www.envoyproxy.io/docs/envoy/latest/api-v3/type/v3/http_status.proto
constexpr auto kStatusCodes = std::to_array<std::int64_t>(
    {400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421,
     422, 423, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511});

void check_count(const Field& field) { static_cast<void>(field.integer(0, UINT32_MAX)); }

void check_duration(const Field& field) {
  const auto text = field.text();
  if (text && seconds_of(*text).value_or(0) <= 0)
    field.refuse("must be a duration above 0, such as 500ms or 5s");
}

void check_connections(const Field& settings) {
  if (!settings.present() || !settings.required_map()) return;
  settings.only({"tcp", "http"});
  if (const Field tcp = settings["tcp"]; tcp.present() && tcp.required_map()) {
    tcp.only({"maxConnections", "connectTimeout"});
    check_count(tcp["maxConnections"]);
    check_duration(tcp["connectTimeout"]);
  }
  if (const Field http = settings["http"]; http.present() && http.required_map()) {
    http.only({"maxRequests", "maxRequestsPerConnection", "maxPendingRequests", "maxRetries"});
    for (const char* name :
         {"maxRequests", "maxRequestsPerConnection", "maxPendingRequests", "maxRetries"})
      check_count(http[name]);
  }
}

// Checks a rate: `amount` per unit, and the burst.
void check_rate(const Field& limit, std::string_view amount) {
  if (!limit[amount].present()) limit[amount].refuse("required");
  static_cast<void>(limit[amount].integer(1, UINT32_MAX));
  constexpr std::array kUnits{Choice<int>{"second", 1}, Choice<int>{"minute", 60},
                              Choice<int>{"hour", 3600}};
  if (!limit["unit"].present()) limit["unit"].refuse("required");
  choice_of(limit["unit"], kUnits, 0);
  check_count(limit["burst"]);
}

void check_header(const Field& field) {
  if (!field.required_map()) return;
  field.only({"name", "value"});
  const auto name = field["name"].required_text();
  if (!name.empty() && !is_header_name(name)) field["name"].refuse("not an HTTP header name");
  const Field value = field["value"];
  if (!value.present()) value.refuse("required");
  if (value.text().value_or("").find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
    value.refuse("must be one line");
}

void check_http_limit(const Field& limit) {
  if (!limit.present() || !limit.required_map()) return;
  limit.only({"requests", "unit", "burst", "responseStatusCode", "responseHeadersToAdd"});
  check_rate(limit, "requests");
  const Field status = limit["responseStatusCode"];
  const auto code = status.integer(400, 599);
  if (code && std::find(kStatusCodes.begin(), kStatusCodes.end(), *code) == kStatusCodes.end())
    status.refuse("is no status code that Envoy can answer with; use one such as 429 or 503");
  for (const Field& field : limit["responseHeadersToAdd"].list()) check_header(field);
}

// The local rate limit. If there is none, it and all its members are absent.
Field local_of(const Field& limits) {
  if (limits.present() && limits.required_map()) limits.only({"local"});
  const Field local = limits["local"];
  if (local.present()) static_cast<void>(local.required_map());
  return local;
}

void check_rate_limit(const Field& limits) {
  const Field local = local_of(limits);
  local.only({"tcp", "http"});
  if (const Field tcp = local["tcp"]; tcp.present() && tcp.required_map()) {
    tcp.only({"connections", "unit", "burst"});
    check_rate(tcp, "connections");
  }
  check_http_limit(local["http"]);
}

void check_routes(const Field& routes) {
  int cost = 0;
  for (const Field& route : routes.list()) {
    if (!route.required_map()) continue;
    route.only({"path", "rateLimit"});
    const std::string path = route["path"].required_text();
    if (cost <= kMostProgram && !path.empty())
      if (auto cause = why_bad_regex(path, &cost)) {
        route["path"].refuse(*std::move(cause), ErrorCode::kInvalidRegex);
        cost += 1000;  // the failed compilation took time, too
      }
    check_http_limit(local_of(route["rateLimit"]));
  }
  if (cost > kMostProgram)
    routes.refuse("the paths together are too costly; simplify them, or split the object",
                  ErrorCode::kInvalidRegex);
}

}  // namespace

CheckedPolicy check_upstream_traffic_setting(const Field& spec) {
  spec.only({"host", "connectionSettings", "rateLimit", "httpRoutes"});
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
