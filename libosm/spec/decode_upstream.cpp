// UpstreamTrafficSetting, policy.openservicemesh.io/v1alpha1.
#include "osm/values/upstream_traffic_setting.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

// Status codes that Envoy can answer with.
// https://www.envoyproxy.io/docs/envoy/latest/api-v3/type/v3/http_status.proto
constexpr auto kStatusCodes = std::to_array<std::int64_t>(
    {400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421,
     422, 423, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511});

constexpr DurationRule kConnectTimeout{std::chrono::milliseconds(1), std::chrono::hours(1),
                                       "from 1ms to 1h, such as 500ms or 5s"};
constexpr std::string_view kNoGlobal =
    "has no effect: no rate-limit service is asked yet; give a limit under local";

std::optional<std::uint32_t> count_of(const Field& field) {
  const auto count = field.integer(0, UINT32_MAX);
  return count ? std::optional(static_cast<std::uint32_t>(*count)) : std::nullopt;
}

ConnectionSettings connections_of(const Field& settings) {
  ConnectionSettings out;
  if (!settings.optional_map({"tcp", "http"})) return out;
  if (const Field tcp = settings["tcp"]; tcp.optional_map({"maxConnections", "connectTimeout"})) {
    out.max_connections = count_of(tcp["maxConnections"]);
    out.connect_timeout = duration_of(tcp["connectTimeout"], kConnectTimeout);
  }
  const Field http = settings["http"];
  if (!http.optional_map(
          {"maxRequests", "maxRequestsPerConnection", "maxPendingRequests", "maxRetries"}))
    return out;
  out.max_requests = count_of(http["maxRequests"]);
  out.max_requests_per_connection = count_of(http["maxRequestsPerConnection"]);
  out.max_pending_requests = count_of(http["maxPendingRequests"]);
  out.max_retries = count_of(http["maxRetries"]);
  return out;
}

// Reads a rate: `amount` per unit, and the burst.
LocalRateLimit rate_of(const Field& limit, std::string_view amount) {
  using namespace std::chrono_literals;
  LocalRateLimit out;
  out.amount =
      static_cast<std::uint32_t>(limit[amount].required().integer(1, UINT32_MAX).value_or(1));
  out.unit = choice_of<std::chrono::seconds>(
      limit["unit"].required(), {{"second", 1s}, {"minute", 60s}, {"hour", 3600s}}, 1s);
  out.burst = count_of(limit["burst"]).value_or(0);
  return out;
}

std::pair<std::string, std::string> header_of(const Field& field) {
  if (!field.required_map({"name", "value"})) return {};
  const std::string name = field["name"].required_text();
  if (!name.empty() && !is_header_name(name)) field["name"].refuse("not an HTTP header name");
  const Field value = field["value"];
  const std::string text = value.required().text().value_or("");
  if (text.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
    value.refuse("must be one line");
  return {name, text};
}

std::optional<HttpLocalRateLimit> http_limit_of(const Field& limit) {
  if (!limit.optional_map(
          {"requests", "unit", "burst", "responseStatusCode", "responseHeadersToAdd"}))
    return std::nullopt;
  HttpLocalRateLimit out{.rate = rate_of(limit, "requests"), .headers = {}};
  const Field status = limit["responseStatusCode"];
  if (const auto code = status.integer(400, 599)) {
    out.status = static_cast<std::uint32_t>(*code);
    if (std::find(kStatusCodes.begin(), kStatusCodes.end(), *code) == kStatusCodes.end())
      status.refuse("is no status code that Envoy can answer with; use one such as 429 or 503");
  }
  for (const Field& field : limit["responseHeadersToAdd"].list())
    out.headers.push_back(header_of(field));
  return out;
}

// The local rate limit. If there is none, it and all its members are absent.
Field local_of(const Field& limits) {
  if (limits.optional_map({"local", "global"}) && limits["global"].present())
    limits["global"].note(std::string(kNoGlobal));
  return limits["local"];
}

void read_rate_limit(const Field& limits, UpstreamLimits& out) {
  const Field local = local_of(limits);
  local.optional_map({"tcp", "http"});
  if (const Field tcp = local["tcp"]; tcp.optional_map({"connections", "unit", "burst"}))
    out.tcp = rate_of(tcp, "connections");
  out.http = http_limit_of(local["http"]);
}

// Paths without a local limit have the Service's.
std::vector<HttpRouteRateLimit> paths_of(const Field& routes) {
  std::vector<HttpRouteRateLimit> out;
  int cost = 0;
  for (const Field& route : routes.list()) {
    if (!route.required_map({"path", "rateLimit"})) continue;
    const std::string path = route["path"].required_text();
    if (!path.empty()) check_regex(route["path"], path, cost);
    if (auto limit = http_limit_of(local_of(route["rateLimit"])))
      out.push_back({path, std::move(*limit)});
  }
  if (cost > kMaxObjectProgram)
    routes.refuse("the paths together are too costly; simplify them, or split the object",
                  ErrorCode::kInvalidRegex);
  return out;
}

// The Service of a host name: "api.shop", with or without ".svc" and ".svc.cluster.local".
ServiceName service_of(const Field& field, const std::string& own_namespace) {
  const std::string host = field.required_text();
  if (host.empty()) return {};
  const auto dot = host.find('.');
  const auto end = dot == std::string::npos ? dot : host.find('.', dot + 1);
  const std::string rest = end == std::string::npos ? "" : host.substr(end);
  const ServiceName name{dot == std::string::npos ? "" : host.substr(dot + 1, end - dot - 1),
                         host.substr(0, dot)};
  if (!is_dns_label(name.ns) || !is_dns_label(name.name) ||
      (!rest.empty() && rest != ".svc" && rest != ".svc.cluster.local")) {
    field.refuse("must be a Service's name with its namespace, such as api.shop.svc.cluster.local");
  } else if (name.ns != own_namespace) {
    field.refuse("must name a Service of the object's own namespace, " + own_namespace,
                 ErrorCode::kCrossNamespace);
  }
  return name;
}

}  // namespace

DecodedPolicy decode_upstream_traffic_setting(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  const Field spec = reader.root()["spec"];
  UpstreamTrafficSetting setting;
  if (spec.required_map({"host", "connectionSettings", "rateLimit", "httpRoutes"})) {
    setting.service = service_of(spec["host"], object.key.ns);
    setting.limits.connections = connections_of(spec["connectionSettings"]);
    read_rate_limit(spec["rateLimit"], setting.limits);
    setting.limits.paths = paths_of(spec["httpRoutes"]);
  }
  DecodedPolicy decoded;
  if (reader.findings().valid()) {
    PolicyReach reach{.everything = false, .accounts = {}, .services = {setting.service}};
    decoded.value =
        std::make_shared<const Policy>(object.key, std::move(reach), std::move(setting));
  }
  decoded.problems = std::move(reader.findings()).take(object.key);
  return decoded;
}

}  // namespace osm::inline v1::spec
