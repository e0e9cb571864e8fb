#include "translate/global_limits.hpp"

#include <algorithm>

#include "envoy/extensions/filters/http/ratelimit/v3/rate_limit.pb.h"
#include "envoy/extensions/filters/network/ratelimit/v3/rate_limit.pb.h"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

namespace http_limit = envoy::extensions::filters::http::ratelimit::v3;
namespace network_limit = envoy::extensions::filters::network::ratelimit::v3;
namespace route = envoy::config::route::v3;

std::string filter_name(const ServiceName& service) {
  return "http_global_rate_limit|" + service.str();
}

// Settings that both filters have.
template <class Filter>
void set_server(Filter& out, const RateLimitServer& server) {
  out.set_domain(server.domain);
  set_milliseconds(*out.mutable_timeout(), server.timeout.count());
  out.set_failure_mode_deny(!server.fail_open);
  auto& service = *out.mutable_rate_limit_service();
  service.set_transport_api_version(envoy::config::core::v3::ApiVersion::V3);
  service.mutable_grpc_service()->mutable_envoy_grpc()->set_cluster_name(
      rate_limit_cluster(server));
}

route::HeaderMatcher header_matcher_of(const HeaderCondition& condition) {
  using Kind = HeaderCondition::Kind;
  route::HeaderMatcher out;
  out.set_name(condition.name);
  auto& text = *out.mutable_string_match();
  switch (condition.kind) {
    case Kind::kExact:
      text.set_exact(condition.text);
      break;
    case Kind::kPrefix:
      text.set_prefix(condition.text);
      break;
    case Kind::kSuffix:
      text.set_suffix(condition.text);
      break;
    case Kind::kContains:
      text.set_contains(condition.text);
      break;
    case Kind::kRegex:
      text.mutable_safe_regex()->set_regex(condition.text);
      break;
    case Kind::kPresent:
      out.set_present_match(true);
      break;  // in place of the text
    case Kind::kAbsent:
      out.set_present_match(false);
      break;
  }
  return out;
}

void set_action(route::RateLimit::Action& out, const RateLimitEntry& entry) {
  using Kind = RateLimitEntry::Kind;
  switch (entry.kind) {
    case Kind::kGenericKey:
      out.mutable_generic_key()->set_descriptor_key(entry.key);
      out.mutable_generic_key()->set_descriptor_value(entry.value);
      break;
    case Kind::kRemoteAddress:
      out.mutable_remote_address();
      break;
    case Kind::kRequestHeader:
      out.mutable_request_headers()->set_descriptor_key(entry.key);
      out.mutable_request_headers()->set_header_name(entry.header);
      break;
    case Kind::kHeaderValueMatch: {
      auto& match = *out.mutable_header_value_match();
      match.set_descriptor_key(entry.key);
      match.set_descriptor_value(entry.value);
      match.mutable_expect_match()->set_value(entry.expect_match);
      for (const HeaderCondition& header : entry.headers)
        *match.add_headers() = header_matcher_of(header);
      break;
    }
  }
}

}  // namespace

std::vector<HttpLimiter> http_limiters(const ClassView& view, const ServiceName& service,
                                       const std::vector<ServiceName>& apexes) {
  std::vector<HttpLimiter> out;
  const auto add = [&](const ServiceName& name) {
    if (const auto* limits = view.limits_of(name); limits && limits->global_http)
      out.push_back({name, *limits->global_http});
  };
  add(service);
  for (const ServiceName& apex : apexes) add(apex);
  std::sort(out.begin(), out.end(),
            [](const HttpLimiter& a, const HttpLimiter& b) { return a.service < b.service; });
  return out;
}

std::string rate_limit_cluster(const RateLimitServer& server) {
  return "rate-limit|" + server.host + '|' + std::to_string(number(server.port));
}

envoy::config::listener::v3::Filter connection_limiter(const std::string& stat_prefix,
                                                       const TcpGlobalRateLimit& limit) {
  network_limit::RateLimit rate;
  rate.set_stat_prefix(stat_prefix);
  set_server(rate, limit.server);
  for (const auto& descriptor : limit.descriptors) {
    auto& out = *rate.add_descriptors();
    for (const auto& [key, value] : descriptor) {
      auto& entry = *out.add_entries();
      entry.set_key(key);
      entry.set_value(value);
    }
  }
  envoy::config::listener::v3::Filter filter;
  set_extension(filter, "l4_global_rate_limit", rate);
  return filter;
}

void add_limiter(
    envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager&
        manager,
    const HttpLimiter& limiter) {
  http_limit::RateLimit rate;
  set_server(rate, limiter.limit.server);
  rate.mutable_rate_limited_status()->set_code(
      static_cast<envoy::type::v3::StatusCode>(limiter.limit.status));
  if (limiter.limit.quota_headers)
    rate.set_enable_x_ratelimit_headers(http_limit::RateLimit::DRAFT_VERSION_03);
  auto& filter = *manager.add_http_filters();
  set_extension(filter, filter_name(limiter.service), rate);
  filter.set_disabled(true);
}

void add_references(const std::vector<HttpLimiter>& limiters, Encoding& encoding) {
  for (const HttpLimiter& limiter : limiters)
    encoding.references.push_back({XdsType::kCluster, rate_limit_cluster(limiter.limit.server)});
}

void enable_limiter(route::VirtualHost& host, const ServiceName& service) {
  (*host.mutable_typed_per_filter_config())[filter_name(service)] =
      pack_any(http_limit::RateLimitPerRoute());
}

route::RateLimit rate_limit_of(const RateLimitDescriptor& descriptor) {
  route::RateLimit out;
  for (const RateLimitEntry& entry : descriptor) set_action(*out.add_actions(), entry);
  return out;
}

}  // namespace osm::inline v1::translate
