#include "translate/http_manager.hpp"

#include "envoy/config/trace/v3/opentelemetry.pb.h"
#include "envoy/config/trace/v3/zipkin.pb.h"
#include "envoy/extensions/filters/http/ext_authz/v3/ext_authz.pb.h"
#include "envoy/extensions/filters/http/health_check/v3/health_check.pb.h"
#include "envoy/extensions/filters/http/lua/v3/lua.pb.h"
#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/http/router/v3/router.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "translate/limits.hpp"
#include "translate/pack_any.hpp"
#include "translate/request_metrics.hpp"

namespace osm::inline v1::translate {
namespace {

namespace hcm = envoy::extensions::filters::network::http_connection_manager::v3;
namespace http_rbac = envoy::extensions::filters::http::rbac::v3;
namespace ext_authz = envoy::extensions::filters::http::ext_authz::v3;
namespace core = envoy::config::core::v3;

constexpr std::uint32_t kMostBodyBytes = 8192;  // part of a request that the authorizer gets

constexpr HeaderLimits kEnvoys;  // defaults, which are not written

void set_limits(hcm::HttpConnectionManager& out, const HeaderLimits& limits) {
  if (limits.count != kEnvoys.count)
    out.mutable_common_http_protocol_options()->mutable_max_headers_count()->set_value(
        limits.count);
  if (limits.kilobytes != kEnvoys.kilobytes)
    out.mutable_max_request_headers_kb()->set_value(limits.kilobytes);
}

// Keep Envoy's timeouts: none for requests, 5 minutes for an idle stream. Routes replace the
// latter.
hcm::HttpConnectionManager manager(const std::string& route_name, const std::string& counted_as,
                                   Direction direction, const HeaderLimits& headers,
                                   const AccessLogs& logs) {
  hcm::HttpConnectionManager out;
  out.set_stat_prefix("mesh-http-conn-manager." + counted_as);
  out.set_codec_type(hcm::HttpConnectionManager::AUTO);
  auto& rds = *out.mutable_rds();
  rds.set_route_config_name(route_name);
  rds.mutable_config_source()->mutable_ads();
  rds.mutable_config_source()->set_resource_api_version(core::ApiVersion::V3);
  out.add_upgrade_configs()->set_upgrade_type("websocket");
  // Some clients offer an upgrade to TLS with every request, and a server may ignore that (RFC
  // 9110, 7.8). Envoy would answer 403.
  auto& tls = *out.mutable_http_protocol_options()->add_ignore_http_11_upgrade();
  tls.set_prefix("TLS/");
  tls.set_ignore_case(true);
  // "api.shop." is the host api.shop, written so that no resolver tries a search list.
  out.set_strip_trailing_host_dot(true);
  set_limits(out, headers);
  out.set_server_header_transformation(hcm::HttpConnectionManager::PASS_THROUGH);
  logs.add_to(*out.mutable_access_log(), direction);
  return out;
}

// Spans carry the account and its namespace, which are the bootstrap's cluster name too.
void set_tracing(hcm::HttpConnectionManager& out, const std::optional<HttpTracing>& tracing) {
  if (!tracing) return;
  auto& provider = *out.mutable_tracing()->mutable_provider();
  out.mutable_tracing()->set_verbose(true);
  if (tracing->protocol == TracingProtocol::kOpenTelemetry) {
    envoy::config::trace::v3::OpenTelemetryConfig otel;
    otel.mutable_grpc_service()->mutable_envoy_grpc()->set_cluster_name(kTracingCluster);
    otel.set_service_name(tracing->service_name);
    return set_extension(provider, "envoy.tracers.opentelemetry", otel);
  }
  envoy::config::trace::v3::ZipkinConfig zipkin;
  zipkin.set_collector_cluster(kTracingCluster);
  zipkin.set_collector_endpoint(tracing->endpoint);
  zipkin.set_collector_endpoint_version(envoy::config::trace::v3::ZipkinConfig::HTTP_JSON);
  set_extension(provider, "envoy.tracers.zipkin", zipkin);
}

void add_router(hcm::HttpConnectionManager& out, bool adds_headers = true) {
  envoy::extensions::filters::http::router::v3::Router router;
  router.set_suppress_envoy_headers(!adds_headers);
  set_extension(*out.add_http_filters(), "http_router", router);
}

// Denies everything: rules without policies admit nobody, while no rules at all would admit
// everybody. Virtual hosts open it, so a route without its own permission stays closed.
void add_closed_rbac(hcm::HttpConnectionManager& out) {
  http_rbac::RBAC closed;
  closed.mutable_rules()->set_action(envoy::config::rbac::v3::RBAC::ALLOW);
  set_extension(*out.add_http_filters(), kHttpRbacFilter, closed);
}

// Envoy's own check of names (headers_with_underscores_action) answers 400 in HTTP/1.1, but resets
// a stream of HTTP/2, which a client's sidecar takes for a broken server. The metadata is counted.
constexpr std::string_view kRefuseUnderscores = R"lua(function envoy_on_request(request)
  for name in pairs(request:headers()) do
    if string.find(name, "_", 1, true) then
      request:streamInfo():dynamicMetadata():set("osm", "refused", "header-name")
      request:respond({[":status"] = "400"}, "the name of a header has an underscore\n")
      return
    end
  end
end
)lua";

// An application may take these spellings for the header that names the caller.
constexpr std::string_view kRemoveForgedCaller = R"lua(function envoy_on_request(request)
  local forged = {}
  for name in pairs(request:headers()) do
    if string.find(name, "_", 1, true) and
       (string.gsub(name, "_", "-")) == "x-forwarded-client-cert" then
      forged[#forged + 1] = name
    end
  end
  for _, name in ipairs(forged) do request:headers():remove(name) end
end
)lua";

void add_header_names_check(hcm::HttpConnectionManager& out, HeaderNames names) {
  envoy::extensions::filters::http::lua::v3::Lua check;
  check.mutable_default_source_code()->set_inline_string(
      std::string(names == HeaderNames::kStrict ? kRefuseUnderscores : kRemoveForgedCaller));
  set_extension(*out.add_http_filters(), "http_header_names", check);
}

// Must be the first filter: health checks concern the proxy, and no policy covers them.
void add_probe_answer(hcm::HttpConnectionManager& out) {
  envoy::extensions::filters::http::health_check::v3::HealthCheck answer;
  answer.mutable_pass_through_mode()->set_value(false);
  auto& path = *answer.add_headers();
  path.set_name(":path");
  path.mutable_string_match()->set_exact(kProbePath);
  auto& mark = *answer.add_headers();
  mark.set_name(kProbeHeader);
  mark.set_present_match(true);
  set_extension(*out.add_http_filters(), "http_health_check", answer);
  AccessLogList& logs = *out.mutable_access_log();
  for (auto& log : logs) log.mutable_filter()->mutable_not_health_check_filter();
}

// Must follow RBAC: the authorizer does not see requests that policy refuses.
void add_authorizer(hcm::HttpConnectionManager& out, const HttpAuthorizer& authorizer,
                    Protocol protocol) {
  ext_authz::ExtAuthz check;
  auto& service = *check.mutable_grpc_service();
  service.mutable_envoy_grpc()->set_cluster_name(kAuthorizationCluster);
  set_milliseconds(*service.mutable_timeout(), authorizer.timeout);
  check.set_transport_api_version(core::ApiVersion::V3);
  check.set_stat_prefix(authorizer.stat_prefix);
  check.set_failure_mode_allow(authorizer.failure_mode_allow);
  // A client of a gRPC stream may wait for a reply before it sends more, so the body never ends.
  if (protocol != Protocol::kGrpc) {
    check.mutable_with_request_body()->set_max_request_bytes(kMostBodyBytes);
    check.mutable_with_request_body()->set_allow_partial_message(true);
  }
  set_extension(*out.add_http_filters(), "http_external_authz", check);
}

hcm::HttpConnectionManager server_manager(const std::string& route_name, Protocol protocol,
                                          RequestForm form, const InboundHttp& settings,
                                          const std::vector<HttpLimiter>& limiters,
                                          const AccessLogs& logs) {
  auto out = manager(route_name, route_name, Direction::kInbound, settings.headers, logs);
  set_tracing(out, settings.tracing);
  // Explicit, since the proxy's runtime could say otherwise.
  const bool normalize = form.paths == HttpPaths::kNormalize;
  out.mutable_normalize_path()->set_value(normalize);
  out.set_merge_slashes(normalize);
  out.set_path_with_escaped_slashes_action(normalize ? hcm::HttpConnectionManager::REJECT_REQUEST
                                                     : hcm::HttpConnectionManager::KEEP_UNCHANGED);
  // The application learns the caller from this header only; a value that the caller sent is
  // removed.
  out.set_forward_client_cert_details(hcm::HttpConnectionManager::SANITIZE_SET);
  out.mutable_set_current_client_cert_details()->set_uri(true);
  if (settings.counts_requests) *out.add_access_log() = request_metrics();
  if (settings.answers_probes) add_probe_answer(out);
  if (form.header_names == HeaderNames::kStrict) *out.add_access_log() = refused_header_names();
  add_header_names_check(out, form.header_names);
  add_closed_rbac(out);
  // After RBAC: refused requests consume nothing. A server is not asked about requests that the
  // local limit refuses.
  add_open_rate_limit(out);
  for (const HttpLimiter& limiter : limiters) add_limiter(out, limiter);
  if (settings.authorizer) add_authorizer(out, *settings.authorizer, protocol);
  add_router(out);
  return out;
}

envoy::config::listener::v3::Filter filter_of(const hcm::HttpConnectionManager& manager) {
  envoy::config::listener::v3::Filter filter;
  set_extension(filter, "envoy.filters.network.http_connection_manager", manager);
  return filter;
}

}  // namespace

void set_header_limits(envoy::extensions::upstreams::http::v3::HttpProtocolOptions& out,
                       const HeaderLimits& limits) {
  auto& options = *out.mutable_common_http_protocol_options();
  if (limits.count != kEnvoys.count) options.mutable_max_headers_count()->set_value(limits.count);
  if (limits.kilobytes != kEnvoys.kilobytes)
    options.mutable_max_response_headers_kb()->set_value(limits.kilobytes);
}

std::optional<HttpTracing> HttpTracing::of(const ClassView& view) {
  const TracingConfig& from = view.snapshot.config.proxy.tracing;
  if (!from.enabled || from.address.empty()) return std::nullopt;
  if (from.protocol == TracingProtocol::kZipkin)
    return HttpTracing{from.protocol, from.endpoint, {}};
  return HttpTracing{from.protocol, {}, telemetry_service_name(view.proxy_class.identity)};
}

std::optional<HttpAuthorizer> HttpAuthorizer::of(const ProxySettings& settings) {
  const ExternalAuthorization& from = settings.external_authorization;
  if (!from.enabled) return std::nullopt;
  return HttpAuthorizer{from.stat_prefix, from.timeout.count(), from.failure_mode_allow};
}

InboundHttp InboundHttp::of(const ClassView& view) {
  const ProxySettings& settings = view.snapshot.config.proxy;
  return {settings.headers, HttpTracing::of(view), HttpAuthorizer::of(settings),
          settings.active_health_checks, settings.request_metrics};
}

OutboundHttp OutboundHttp::of(const ClassView& view) {
  return {view.snapshot.config.proxy.headers, HttpTracing::of(view)};
}

envoy::config::listener::v3::Filter outbound_http_manager(const std::string& route_name, Port port,
                                                          const OutboundHttp& settings,
                                                          const AccessLogs& logs) {
  auto out =
      manager(route_name, outbound_route_name(port), Direction::kOutbound, settings.headers, logs);
  // Else an application that speaks HTTP/1.0 gets 426.
  out.mutable_http_protocol_options()->set_accept_http_10(true);
  set_tracing(out, settings.tracing);
  add_router(out);
  return filter_of(out);
}

envoy::config::listener::v3::Filter egress_http_manager(const std::string& route_name,
                                                        const HeaderLimits& headers,
                                                        const AccessLogs& logs) {
  auto out = manager(route_name, route_name, Direction::kOutbound, headers, logs);
  out.mutable_http_protocol_options()->set_accept_http_10(true);
  out.mutable_generate_request_id()->set_value(false);
  // An application that copies the headers of its own requests would tell who called it.
  out.set_forward_client_cert_details(hcm::HttpConnectionManager::SANITIZE);
  add_router(out, false);
  return filter_of(out);
}

envoy::config::listener::v3::Filter inbound_http_manager(const std::string& route_name,
                                                         Protocol protocol, RequestForm form,
                                                         const InboundHttp& settings,
                                                         const std::vector<HttpLimiter>& limiters,
                                                         const AccessLogs& logs) {
  return filter_of(server_manager(route_name, protocol, form, settings, limiters, logs));
}

envoy::config::listener::v3::Filter ingress_http_manager(const std::string& route_name,
                                                         Protocol protocol, RequestForm form,
                                                         const InboundHttp& settings,
                                                         const std::vector<HttpLimiter>& limiters,
                                                         const AccessLogs& logs) {
  InboundHttp without_probes = settings;
  without_probes.answers_probes = false;
  auto out = server_manager(route_name, protocol, form, without_probes, limiters, logs);
  out.mutable_http_protocol_options()->set_accept_http_10(true);
  return filter_of(out);
}

std::vector<EncodedResource::Reference> cluster_references(const InboundHttp& settings) {
  std::vector<EncodedResource::Reference> references;
  if (settings.tracing) references.push_back({XdsType::kCluster, kTracingCluster});
  if (settings.authorizer) references.push_back({XdsType::kCluster, kAuthorizationCluster});
  return references;
}

}  // namespace osm::inline v1::translate
