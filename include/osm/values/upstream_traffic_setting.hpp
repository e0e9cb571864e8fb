// Limits of the traffic to a Service: an UpstreamTrafficSetting,
// policy.openservicemesh.io/v1alpha1. docs/mesh-objects.md has the fields and the effects.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// Limits of one client's sidecar towards the Service. Without a value there is no limit.
struct ConnectionSettings {
  std::optional<std::uint32_t> max_connections;
  std::optional<std::uint32_t> max_pending_requests;
  std::optional<std::uint32_t> max_requests;  // at once
  std::optional<std::uint32_t> max_retries;   // at once
  std::optional<std::uint32_t> max_requests_per_connection;
  std::optional<std::chrono::milliseconds> connect_timeout;  // above 0; without: 5 s

  friend bool operator==(const ConnectionSettings&, const ConnectionSettings&) = default;
};

// A token bucket of one server's sidecar. It holds at most `amount + burst`, and gets `amount` each
// `unit`.
struct LocalRateLimit {
  std::uint32_t amount = 0;  // above 0
  std::chrono::seconds unit{};
  std::uint32_t burst = 0;

  friend bool operator==(const LocalRateLimit&, const LocalRateLimit&) = default;
};

// A rate of requests, and the answer to those above it.
struct HttpLocalRateLimit {
  LocalRateLimit rate;
  std::uint32_t status = 429;  // 400 to 599
  std::vector<std::pair<std::string, std::string>> headers;

  friend bool operator==(const HttpLocalRateLimit&, const HttpLocalRateLimit&) = default;
};

// A limit of its own for some paths.
struct HttpRouteRateLimit {
  std::string path_regex;  // RE2; matches the whole path, without the query
  HttpLocalRateLimit limit;

  friend bool operator==(const HttpRouteRateLimit&, const HttpRouteRateLimit&) = default;
};

// The limits of one Service, in its clients' sidecars and in its own.
struct UpstreamLimits {
  ConnectionSettings connections;
  std::optional<LocalRateLimit> tcp;       // of new connections, on all ports
  std::optional<HttpLocalRateLimit> http;  // of requests to paths without their own limit
  std::vector<HttpRouteRateLimit> paths;   // the first that matches counts

  friend bool operator==(const UpstreamLimits&, const UpstreamLimits&) = default;
};

// One UpstreamTrafficSetting.
struct UpstreamTrafficSetting {
  ServiceName service;  // in the object's own namespace
  UpstreamLimits limits;

  friend bool operator==(const UpstreamTrafficSetting&, const UpstreamTrafficSetting&) = default;
};

}  // namespace osm::inline v1
