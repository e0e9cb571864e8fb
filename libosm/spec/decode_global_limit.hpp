// The parts of an UpstreamTrafficSetting about limits that a rate-limit server counts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "osm/values/upstream_traffic_setting.hpp"
#include "spec/fields.hpp"

namespace osm::inline v1::spec {

// Absent fields: nullopt, no change, an empty list. `cost`: see check_regex().
std::optional<TcpGlobalRateLimit> tcp_global_limit_of(const Field& field);
void read_http_global_limit(const Field& field, UpstreamLimits& out, int& cost);
std::vector<RateLimitDescriptor> descriptors_of(const Field& field, int& cost);

// The status of an answer above a limit; absent: 429.
std::uint32_t refusal_status_of(const Field& field);

}  // namespace osm::inline v1::spec
