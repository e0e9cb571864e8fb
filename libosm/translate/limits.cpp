#include "translate/limits.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "envoy/config/route/v3/route_components.pb.h"
#include "envoy/extensions/filters/http/local_ratelimit/v3/local_rate_limit.pb.h"
#include "envoy/extensions/filters/network/local_ratelimit/v3/local_rate_limit.pb.h"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

namespace http_limit = envoy::extensions::filters::http::local_ratelimit::v3;
namespace network_limit = envoy::extensions::filters::network::local_ratelimit::v3;

constexpr const char* kStatPrefix = "http_local_rate_limiter";

void set_bucket(envoy::type::v3::TokenBucket& out, const LocalRateLimit& limit) {
  const std::uint64_t most = std::uint64_t{limit.amount} + limit.burst;
  out.set_max_tokens(static_cast<std::uint32_t>(
      std::min<std::uint64_t>(most, std::numeric_limits<std::uint32_t>::max())));
  out.mutable_tokens_per_fill()->set_value(limit.amount);
  out.mutable_fill_interval()->set_seconds(limit.unit.count());
}

}  // namespace

envoy::config::listener::v3::Filter connection_rate_limit(const std::string& chain,
                                                          const LocalRateLimit& limit) {
  network_limit::LocalRateLimit rate;
  rate.set_stat_prefix(chain);
  set_bucket(*rate.mutable_token_bucket(), limit);
  rate.set_share_key(chain);
  envoy::config::listener::v3::Filter filter;
  set_extension(filter, "l4_local_rate_limit", rate);
  return filter;
}

void add_open_rate_limit(
    envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager&
        manager) {
  http_limit::LocalRateLimit open;
  open.set_stat_prefix(kStatPrefix);
  set_extension(*manager.add_http_filters(), kHttpRateLimitFilter, open);
}

google::protobuf::Any no_rate_limit() {
  envoy::config::route::v3::FilterConfig off;
  off.set_disabled(true);
  return pack_any(off);
}

google::protobuf::Any request_rate_limit(const HttpLocalRateLimit& limit) {
  http_limit::LocalRateLimit rate;
  rate.set_stat_prefix(kStatPrefix);
  set_bucket(*rate.mutable_token_bucket(), limit.rate);
  rate.mutable_status()->set_code(static_cast<envoy::type::v3::StatusCode>(limit.status));
  for (auto* share : {rate.mutable_filter_enabled(), rate.mutable_filter_enforced()})
    share->mutable_default_value()->set_numerator(100);
  for (const auto& [name, value] : limit.headers) {
    auto& header = *rate.add_response_headers_to_add();
    header.mutable_header()->set_key(name);
    header.mutable_header()->set_value(value);
    header.set_append_action(
        envoy::config::core::v3::HeaderValueOption::OVERWRITE_IF_EXISTS_OR_ADD);
  }
  return pack_any(rate);
}

}  // namespace osm::inline v1::translate
