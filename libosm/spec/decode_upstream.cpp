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
  if (!field.optional_map({"consecutive5xx", "interval", "baseEjectionTime", "maxEjectionPercent"}))
    return std::nullopt;
  OutlierDetection out;
  if (const auto count = field["consecutive5xx"].integer(1, UINT32_MAX))
    out.consecutive_5xx = static_cast<std::uint32_t>(*count);
  out.interval = duration_of(field["interval"], kEjection).value_or(out.interval);
  out.base_ejection_time =
      duration_of(field["baseEjectionTime"], kEjection).value_or(out.base_ejection_time);
  if (const auto percent = field["maxEjectionPercent"].integer(0, 100))
    out.max_ejection_percent = static_cast<std::uint32_t>(*percent);
  return out;
}

void read_connections(const Field& settings, UpstreamLimits& limits) {
  ConnectionSettings& out = limits.connections;
  if (!settings.optional_map({"tcp", "http", "outlierDetection"})) return;
  out.outliers = outliers_of(settings["outlierDetection"]);
  if (const Field tcp = settings["tcp"];
      tcp.optional_map({"maxConnections", "connectTimeout", "idleTimeout"})) {
    out.max_connections = count_of(tcp["maxConnections"]);
    out.connect_timeout = duration_of(tcp["connectTimeout"], kConnectTimeout);
    limits.idle.connection = idle_time_of(tcp["idleTimeout"]);
  }
  const Field http = settings["http"];
  if (!http.optional_map({"maxRequests", "maxRequestsPerConnection", "maxPendingRequests",
                          "maxRetries", "streamIdleTimeout", "applicationIdleTimeout"}))
    return;
  out.max_requests = count_of(http["maxRequests"]);
  out.max_requests_per_connection = count_of(http["maxRequestsPerConnection"]);
  out.max_pending_requests = count_of(http["maxPendingRequests"]);
  out.max_retries = count_of(http["maxRetries"]);
  limits.idle.stream = idle_time_of(http["streamIdleTimeout"]);
  limits.idle.application = idle_time_of(http["applicationIdleTimeout"]);
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

bool is_host_header(std::string_view name) {
  constexpr std::string_view kHost = "host";
  return std::equal(name.begin(), name.end(), kHost.begin(), kHost.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

// Envoy would refuse the whole configuration of the server's limits for one bad header.
std::pair<std::string, std::string> header_of(const Field& field) {
  if (!field.required_map({"name", "value"})) return {};
  const std::string too_long = "must have at most " + std::to_string(kMaxHeaderBytes) + " bytes";
  const std::string name = field["name"].required_text();
  if (name.size() > kMaxHeaderBytes) {
    field["name"].refuse(too_long, ErrorCode::kTooLarge);
  } else if (is_host_header(name)) {
    field["name"].refuse("must not be host, which Envoy does not let be set");
  } else if (!name.empty() && !is_header_name(name)) {
    field["name"].refuse("not an HTTP header name");
  }
  const Field value = field["value"];
  const std::string text = value.required().text().value_or("");
  if (text.size() > kMaxHeaderBytes) {
    value.refuse(too_long, ErrorCode::kTooLarge);
  } else if (text.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
    value.refuse("must be one line");
  } else if (text.find('%') != std::string::npos) {
    value.refuse("must not have a '%': Envoy would replace what follows it");
  }
  return {name, text};
}

std::optional<HttpLocalRateLimit> http_limit_of(const Field& limit) {
  if (!limit.optional_map(
          {"requests", "unit", "burst", "responseStatusCode", "responseHeadersToAdd"}))
    return std::nullopt;
  HttpLocalRateLimit out{.rate = rate_of(limit, "requests"), .headers = {}};
  out.status = refusal_status_of(limit["responseStatusCode"]);
  const Field headers = limit["responseHeadersToAdd"];
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
  if (!limits.optional_map({"local", "global"})) return;
  const Field local = limits["local"], global = limits["global"];
  local.optional_map({"tcp", "http"});
  if (const Field tcp = local["tcp"]; tcp.optional_map({"connections", "unit", "burst"}))
    out.tcp = rate_of(tcp, "connections");
  out.http = http_limit_of(local["http"]);
  if (!global.optional_map({"tcp", "http"})) return;
  out.global_tcp = tcp_global_limit_of(global["tcp"]);
  const Field http = global["http"];
  out.global_http = http_global_limit_of(http);
  out.descriptors = descriptors_of(http["descriptors"], cost);
}

// Paths without a limit of their own have the Service's.
void read_paths(const Field& routes, UpstreamLimits& out, int& cost) {
  for (const Field& route : routes.list()) {
    if (!route.required_map({"path", "rateLimit"})) continue;
    HttpRouteRateLimit own{route["path"].required_text(), {}, {}};
    if (!own.path_regex.empty()) check_regex(route["path"], own.path_regex, cost);
    const Field limits = route["rateLimit"];
    if (!limits.optional_map({"local", "global"})) continue;
    own.limit = http_limit_of(limits["local"]);
    if (const Field global = limits["global"]; global.optional_map({"descriptors"})) {
      own.descriptors = descriptors_of(global["descriptors"].required(), cost);
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
  if (spec.required_map({"host", "connectionSettings", "rateLimit", "httpRoutes"})) {
    setting.service = service_of(spec["host"], object.key.ns, cluster_domain);
    int cost = 0;
    read_connections(spec["connectionSettings"], setting.limits);
    read_rate_limit(spec["rateLimit"], setting.limits, cost);
    read_paths(spec["httpRoutes"], setting.limits, cost);
    if (cost > kMaxObjectProgram)
      spec.refuse(
          "the regular expressions together are too costly; simplify them, or split the object",
          ErrorCode::kInvalidRegex);
  }
  DecodedPolicy decoded;
  if (reader.findings().valid()) {
    PolicyReach reach{.everything = false, .accounts = {}, .services = {}};
    if (setting.service != ServiceName()) reach.services.insert(setting.service);
    decoded.value =
        std::make_shared<const Policy>(object.key, std::move(reach), std::move(setting));
  }
  decoded.problems = std::move(reader.findings()).take(object.key);
  return decoded;
}

}  // namespace osm::inline v1::spec
