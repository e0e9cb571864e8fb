// The HTTP connection managers of mesh chains. They contain no policy, so a policy change drains no
// connection: authorization is part of the routes.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <tuple>

#include "envoy/config/listener/v3/listener_components.pb.h"
#include "osm/values/mesh_config.hpp"
#include "osm/values/service.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::translate {

// Routes override this filter by its name.
inline constexpr const char* kHttpRbacFilter = "http_rbac";

// Settings of connection managers from MeshConfig. Addresses of its servers are in their clusters
// only, so a moved server drains no connection.

struct HttpTracing {
  std::string endpoint;  // the collector's path

  auto fields() const { return std::tie(endpoint); }
  // Nullopt: tracing is off, or has no collector.
  static std::optional<HttpTracing> of(const ProxySettings& settings);
};

struct HttpAuthorizer {
  std::string stat_prefix;
  std::chrono::milliseconds::rep timeout{};
  bool failure_mode_allow = false;

  auto fields() const { return std::tie(stat_prefix, timeout, failure_mode_allow); }
  static std::optional<HttpAuthorizer> of(const ProxySettings& settings);
};

struct InboundHttp {
  std::optional<HttpTracing> tracing;
  std::optional<HttpAuthorizer> authorizer;
  bool answers_probes = false;

  auto fields() const { return std::tie(tracing, authorizer, answers_probes); }
  static InboundHttp of(const ProxySettings& settings);
};

envoy::config::listener::v3::Filter outbound_http_manager(
    const std::string& route_name, const std::optional<HttpTracing>& tracing);
envoy::config::listener::v3::Filter inbound_http_manager(const std::string& route_name,
                                                         Protocol protocol, HttpPaths paths,
                                                         const InboundHttp& settings);

// The clusters that such a connection manager needs besides those of its routes.
std::vector<EncodedResource::Reference> cluster_references(const InboundHttp& settings);

}  // namespace osm::inline v1::translate
