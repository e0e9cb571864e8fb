#include "translate/server_limits.hpp"

#include "translate/global_limits.hpp"
#include "translate/limits.hpp"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {

IdleTime idle_time(const UpstreamLimits* limits, Protocol protocol) {
  if (limits && limits->idle.stream) return limits->idle.stream;
  return protocol == Protocol::kGrpc ? IdleTime(0) : std::nullopt;
}

void set_idle_time(envoy::config::route::v3::RouteAction& action, const IdleTime& idle) {
  if (idle) set_milliseconds(*action.mutable_idle_timeout(), idle->count());
}

ConnectionLimits ConnectionLimits::of(const ClassView& view, const ServiceName& service) {
  const UpstreamLimits* const limits = view.limits_of(service);
  return limits ? ConnectionLimits{limits->tcp, limits->global_tcp} : ConnectionLimits{};
}

void ConnectionLimits::add_to(envoy::config::listener::v3::FilterChain& chain,
                              Encoding& encoding) const {
  if (local) *chain.add_filters() = connection_rate_limit(chain.name(), *local);
  if (!global) return;
  *chain.add_filters() = connection_limiter(chain.name(), *global);
  encoding.references.push_back({XdsType::kCluster, rate_limit_cluster(global->server)});
}

RequestLimits RequestLimits::of(const ClassView& view, const ServiceName& service,
                                Protocol protocol) {
  const UpstreamLimits* const limits = view.limits_of(service);
  RequestLimits out{.service = service,
                    .local = {},
                    .paths = {},
                    .counted = false,
                    .descriptors = {},
                    .idle = idle_time(limits, protocol)};
  if (!limits) return out;
  out.local = limits->http;
  out.paths = limits->paths;
  out.counted = limits->global_http.has_value();
  out.descriptors = limits->descriptors;
  return out;
}

void RequestLimits::add_to(envoy::config::route::v3::VirtualHost& host) const {
  if (local)
    (*host.mutable_typed_per_filter_config())[kHttpRateLimitFilter] = request_rate_limit(*local);
  if (!counted) return;
  enable_limiter(host, service);
  for (const RateLimitDescriptor& descriptor : descriptors)
    *host.add_rate_limits() = rate_limit_of(descriptor);
}

void RequestLimits::replace_on(envoy::config::route::v3::Route& route,
                               const HttpRouteRateLimit& path) const {
  if (path.limit)
    (*route.mutable_typed_per_filter_config())[kHttpRateLimitFilter] =
        request_rate_limit(*path.limit);
  if (!counted) return;
  for (const RateLimitDescriptor& descriptor : path.descriptors)
    *route.mutable_route()->add_rate_limits() = rate_limit_of(descriptor);
}

}  // namespace osm::inline v1::translate
