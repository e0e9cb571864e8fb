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

// A client's sidecar leaves out an endpoint for a while that fails again and again.
struct OutlierDetection {
  std::uint32_t consecutive_5xx = 5;                     // above 0; also failed connections
  std::chrono::milliseconds interval{10'000};            // between two looks at the ejected ones
  std::chrono::milliseconds base_ejection_time{30'000};  // times the number of ejections
  std::uint32_t max_ejection_percent = 10;  // of the endpoints, 0 to 100; above 0: one at least

  friend bool operator==(const OutlierDetection&, const OutlierDetection&) = default;
};

// Limits of one client's sidecar towards the Service. Without a value there is no limit.
struct ConnectionSettings {
  std::optional<std::uint32_t> max_connections;
  std::optional<std::uint32_t> max_pending_requests;
  std::optional<std::uint32_t> max_requests;  // at once
  std::optional<std::uint32_t> max_retries;   // at once
  std::optional<std::uint32_t> max_requests_per_connection;
  std::optional<std::chrono::milliseconds> connect_timeout;  // above 0; without: 5 s
  std::optional<OutlierDetection> outliers{};                // without: no endpoint is ejected

  friend bool operator==(const ConnectionSettings&, const ConnectionSettings&) = default;
};

// Times without a byte in either direction, or without a request, after which a connection or a
// stream is closed. 0: never.
struct IdleTimeouts {
  std::optional<std::chrono::milliseconds> connection;  // of TCP; without: 1 h
  // One request with its answer, a WebSocket or a stream; without: 5 min, and never on gRPC ports.
  std::optional<std::chrono::milliseconds> stream;
  // Idle time of a sidecar's connections to its application; without: kApplicationIdleTime.
  std::optional<std::chrono::milliseconds> application{};

  friend bool operator==(const IdleTimeouts&, const IdleTimeouts&) = default;
};

// Below the times after which common servers close an idle connection (gunicorn 2 s, Node.js 5 s):
// a request that meets such a close is answered 503.
inline constexpr std::chrono::milliseconds kApplicationIdleTime{1000};

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

// A server that counts for all sidecars, by Envoy's protocol: envoy.service.ratelimit.v3 over gRPC.
struct RateLimitServer {
  std::string host;  // DNS name or IP address
  Port port{};
  std::string domain;  // the server's name for a set of limits
  std::chrono::milliseconds timeout{20};
  bool fail_open = true;  // the answer while the server gives none

  friend bool operator==(const RateLimitServer&, const RateLimitServer&) = default;
};

// The connections to count: lists of (key, value). The server decides which have a limit.
struct TcpGlobalRateLimit {
  RateLimitServer server;
  std::vector<std::vector<std::pair<std::string, std::string>>> descriptors;  // none is empty

  friend bool operator==(const TcpGlobalRateLimit&, const TcpGlobalRateLimit&) = default;
};

// A condition on one header of a request.
struct HeaderCondition {
  // The comparison of the header with `text`.
  enum class Kind { kExact, kPrefix, kSuffix, kContains, kRegex, kPresent, kAbsent };
  std::string name;
  Kind kind{};
  std::string text;  // not of kPresent and kAbsent

  friend bool operator==(const HeaderCondition&, const HeaderCondition&) = default;
};

// One (key, value) of a request.
struct RateLimitEntry {
  // The source of the value, by Envoy's names.
  enum class Kind { kGenericKey, kRemoteAddress, kRequestHeader, kHeaderValueMatch };
  Kind kind{};
  std::string key;                       // empty: the kind's own
  std::string value;                     // kGenericKey, kHeaderValueMatch
  std::string header;                    // kRequestHeader: the value is this header's
  std::vector<HeaderCondition> headers;  // kHeaderValueMatch: all must be as `expect_match` says
  bool expect_match = true;

  friend bool operator==(const RateLimitEntry&, const RateLimitEntry&) = default;
};

// A request for which an entry has no value does not have the descriptor.
using RateLimitDescriptor = std::vector<RateLimitEntry>;  // never empty

// Limits of requests that a rate-limit server counts. Descriptors are separate.
struct HttpGlobalRateLimit {
  RateLimitServer server;
  bool quota_headers = false;  // x-ratelimit-limit, -remaining and -reset in answers
  std::uint32_t status = 429;  // 400 to 599

  friend bool operator==(const HttpGlobalRateLimit&, const HttpGlobalRateLimit&) = default;
};

// Limits of their own for some paths, in place of the Service's.
struct HttpRouteRateLimit {
  std::string path_regex;                          // RE2; matches the whole path, without the query
  std::optional<HttpLocalRateLimit> limit;         // without: the Service's
  std::vector<RateLimitDescriptor> descriptors{};  // empty: the Service's

  friend bool operator==(const HttpRouteRateLimit&, const HttpRouteRateLimit&) = default;
};

// The limits of one Service, in its clients' sidecars and in its own.
struct UpstreamLimits {
  ConnectionSettings connections;
  std::optional<LocalRateLimit> tcp;       // of new connections, on all ports
  std::optional<HttpLocalRateLimit> http;  // of requests to paths without their own limit
  std::vector<HttpRouteRateLimit> paths;   // the first that matches counts
  std::optional<TcpGlobalRateLimit> global_tcp;
  std::optional<HttpGlobalRateLimit> global_http;
  std::vector<RateLimitDescriptor> descriptors;  // of `global_http`
  IdleTimeouts idle;

  friend bool operator==(const UpstreamLimits&, const UpstreamLimits&) = default;
};

// One UpstreamTrafficSetting.
struct UpstreamTrafficSetting {
  // In the object's own namespace; empty: the host is none of its Services, so that only an Egress
  // that names the object uses its limits.
  ServiceName service;
  UpstreamLimits limits;

  friend bool operator==(const UpstreamTrafficSetting&, const UpstreamTrafficSetting&) = default;
};

}  // namespace osm::inline v1
