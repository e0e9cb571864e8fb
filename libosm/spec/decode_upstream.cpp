// UpstreamTrafficSetting, policy.openservicemesh.io/v1alpha1.
#include "osm/values/upstream_traffic_setting.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>

#include "model/cluster_names.hpp"
#include "spec/decode_global_limit.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr DurationRule kConnectTimeout{std::chrono::milliseconds(1), std::chrono::hours(1),
                                       "from 1ms to 1h, such as 500ms or 5s"};
constexpr DurationRule kIdleTimeout{std::chrono::milliseconds(0), std::chrono::hours(24 * 30),
                                    "from 1ms to 720h, such as 30s or 1h, or 0s for none"};
constexpr DurationRule kEjection{std::chrono::milliseconds(1), std::chrono::hours(1),
                                 "from 1ms to 1h, such as 10s or 1m"};

// Envoy accepts no more headers for one answer.
constexpr std::size_t kMaxHeaders = 10;
constexpr std::size_t kMaxHeaderBytes = 1024;  // of a name, and of a value

// Less than 1ms would be cut to 0, which is none.
std::optional<std::chrono::milliseconds> idle_time_of(const Field& field) {
  const auto time = duration_of(field, kIdleTimeout);
  if (!time || time->count() > 0 || seconds_of(*field.text()) == 0) return time;
  field.refuse("must be a duration " + std::string(kIdleTimeout.text));
  return std::nullopt;
}

std::optional<std::uint32_t> count_of(const Field& field) {
  const auto count = field.integer(0, UINT32_MAX);
  return count ? std::optional(static_cast<std::uint32_t>(*count)) : std::nullopt;
}

std::optional<OutlierDetection> outliers_of(const Field& field) {
  const auto [map, consecutive_5xx, interval, base_time, max_percent] =
      field.optional_map("consecutive5xx", "interval", "baseEjectionTime", "maxEjectionPercent");
  if (!map) return std::nullopt;
  OutlierDetection out;
  if (const auto count = consecutive_5xx.integer(1, UINT32_MAX))
    out.consecutive_5xx = static_cast<std::uint32_t>(*count);
  out.interval = duration_of(interval, kEjection).value_or(out.interval);
  out.base_ejection_time = duration_of(base_time, kEjection).value_or(out.base_ejection_time);
  if (const auto percent = max_percent.integer(0, 100))
    out.max_ejection_percent = static_cast<std::uint32_t>(*percent);
  return out;
}

void read_connections(const Field& settings, UpstreamLimits& limits) {
  ConnectionSettings& out = limits.connections;
  const auto [map, tcp, http, outliers] = settings.optional_map("tcp", "http", "outlierDetection");
  out.outliers = outliers_of(outliers);
  const auto [is_tcp, max_connections, connect_timeout, idle_timeout] =
      tcp.optional_map("maxConnections", "connectTimeout", "idleTimeout");
  out.max_connections = count_of(max_connections);
  out.connect_timeout = duration_of(connect_timeout, kConnectTimeout);
  limits.idle.connection = idle_time_of(idle_timeout);
  const auto [is_http, requests, per_connection, pending, retries, stream_idle, application_idle] =
      http.optional_map("maxRequests", "maxRequestsPerConnection", "maxPendingRequests",
                        "maxRetries", "streamIdleTimeout", "applicationIdleTimeout");
  out.max_requests = count_of(requests);
  out.max_requests_per_connection = count_of(per_connection);
  out.max_pending_requests = count_of(pending);
  out.max_retries = count_of(retries);
  limits.idle.stream = idle_time_of(stream_idle);
  limits.idle.application = idle_time_of(application_idle);
}

LocalRateLimit rate_of(const Field& amount, const Field& unit, const Field& burst) {
  using namespace std::chrono_literals;
  LocalRateLimit out;
  out.amount = static_cast<std::uint32_t>(amount.required().integer(1, UINT32_MAX).value_or(1));
  out.unit = choice_of<std::chrono::seconds>(
      unit.required(), {{"second", 1s}, {"minute", 60s}, {"hour", 3600s}}, 1s);
  out.burst = count_of(burst).value_or(0);
  return out;
}

bool is_host_header(std::string_view name) {
  constexpr std::string_view kHost = "host";
  return std::equal(name.begin(), name.end(), kHost.begin(), kHost.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

// Envoy would refuse the whole configuration of the server's limits for one bad header.
std::pair<std::string, std::string> header_of(const Field& field) {
  const auto [map, name, value] = field.required_map("name", "value");
  if (!map) return {};
  const std::string too_long = "must have at most " + std::to_string(kMaxHeaderBytes) + " bytes";
  const std::string header = name.required_text();
  if (header.size() > kMaxHeaderBytes) {
    name.refuse(too_long, ErrorCode::kTooLarge);
  } else if (is_host_header(header)) {
    name.refuse("must not be host, which Envoy does not let be set");
  } else if (!header.empty() && !is_header_name(header)) {
    name.refuse("not an HTTP header name");
  }
  const std::string text = value.required().text().value_or("");
  if (text.size() > kMaxHeaderBytes) {
    value.refuse(too_long, ErrorCode::kTooLarge);
  } else if (text.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
    value.refuse("must be one line");
  } else if (text.find('%') != std::string::npos) {
    value.refuse("must not have a '%': Envoy would replace what follows it");
  }
  return {header, text};
}

std::optional<HttpLocalRateLimit> http_limit_of(const Field& limit) {
  const auto [map, requests, unit, burst, status, headers] =
      limit.optional_map("requests", "unit", "burst", "responseStatusCode", "responseHeadersToAdd");
  if (!map) return std::nullopt;
  HttpLocalRateLimit out{.rate = rate_of(requests, unit, burst), .headers = {}};
  out.status = refusal_status_of(status);
  const auto list = headers.list();
  if (list.size() > kMaxHeaders) {
    headers.refuse(
        "has " + std::to_string(list.size()) + " headers, at most " + std::to_string(kMaxHeaders),
        ErrorCode::kTooLarge);
    return out;
  }
  for (const Field& field : list) out.headers.push_back(header_of(field));
  return out;
}

void read_rate_limit(const Field& limits, UpstreamLimits& out, int& cost) {
  const auto [map, local, global] = limits.optional_map("local", "global");
  const auto [is_local, tcp, http] = local.optional_map("tcp", "http");
  const auto [is_tcp, connections, unit, burst] = tcp.optional_map("connections", "unit", "burst");
  if (is_tcp) out.tcp = rate_of(connections, unit, burst);
  out.http = http_limit_of(http);
  const auto [is_global, global_tcp, global_http] = global.optional_map("tcp", "http");
  out.global_tcp = tcp_global_limit_of(global_tcp);
  read_http_global_limit(global_http, out, cost);
}

// Paths without a limit of their own have the Service's.
void read_paths(const Field& routes, UpstreamLimits& out, int& cost) {
  for (const Field& route : routes.list()) {
    const auto [map, path, limits] = route.required_map("path", "rateLimit");
    if (!map) continue;
    HttpRouteRateLimit own{path.required_text(), {}, {}};
    if (!own.path_regex.empty()) check_regex(path, own.path_regex, cost);
    const auto [is_limits, local, global] = limits.optional_map("local", "global");
    own.limit = http_limit_of(local);
    if (const auto [is_global, descriptors] = global.optional_map("descriptors"); is_global) {
      own.descriptors = descriptors_of(descriptors.required(), cost);
      if (!out.global_http)
        global.note("has no effect without spec.rateLimit.global.http, which names the server");
    }
    if (own.limit || !own.descriptors.empty()) out.paths.push_back(std::move(own));
  }
}

// The Service of a host name of the own namespace: "api.shop", with or without ".svc" and
// ".svc.<domain>". Of another host there is none.
ServiceName service_of(const Field& field, const std::string& own_namespace,
                       const std::string& cluster_domain) {
  const std::string text = field.required_text();
  if (text.empty()) return {};
  const std::string host = dns_name_of(text).value_or("");
  const auto dot = host.find('.');
  if (dot == std::string::npos) {
    field.refuse("must be a Service's name with its namespace, such as api.shop.svc." +
                 cluster_domain + ", or a host of an Egress, such as example.com");
    return {};
  }
  const auto end = host.find('.', dot + 1);
  const std::string rest = end == std::string::npos ? "" : host.substr(end);
  const ServiceName name{host.substr(dot + 1, end - dot - 1), host.substr(0, dot)};
  const bool own = name.ns == own_namespace && is_dns_label(name.name) &&
                   model::names_service(rest, cluster_domain);
  return own ? name : ServiceName();
}

}  // namespace

DecodedPolicy decode_upstream_traffic_setting(const Object& object,
                                              const std::string& cluster_domain) {
  ObjectReader reader(object, NameRule::kSubdomain);
  const Field spec = reader.root()["spec"];
  UpstreamTrafficSetting setting;
  const auto [map, host, connections, rate_limit, routes] =
      spec.required_map("host", "connectionSettings", "rateLimit", "httpRoutes");
  if (map) {
    setting.service = service_of(host, object.key.ns, cluster_domain);
    int cost = 0;
    read_connections(connections, setting.limits);
    read_rate_limit(rate_limit, setting.limits, cost);
    read_paths(routes, setting.limits, cost);
    if (cost > kMaxObjectProgram)
      spec.refuse(
          "the regular expressions together are too costly; simplify them, or split the object",
          ErrorCode::kInvalidRegex);
  }
  return std::move(reader).finish_policy(std::move(setting));
}

}  // namespace osm::inline v1::spec
