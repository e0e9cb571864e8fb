// The HTTP connection managers of mesh chains. They contain no policy, so a policy change drains no
// connection: authorization is part of the routes.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "envoy/config/listener/v3/listener_components.pb.h"
#include "envoy/extensions/upstreams/http/v3/http_protocol_options.pb.h"
#include "osm/values/mesh_config.hpp"
#include "osm/values/service.hpp"
#include "translate/access_log.hpp"
#include "translate/class_view.hpp"
#include "translate/global_limits.hpp"

namespace osm::inline v1::translate {

// Routes override this filter by its name.
inline constexpr const char* kHttpRbacFilter = "http_rbac";

// Settings of connection managers from MeshConfig. Addresses of its servers are in their clusters
// only, so a moved server drains no connection.

struct HttpTracing {
  TracingProtocol protocol{};
  std::string endpoint;      // Zipkin: the collector's path
  std::string service_name;  // OpenTelemetry; with Zipkin the bootstrap says it

  // Nullopt: tracing is off, or has no collector.
  static std::optional<HttpTracing> of(const ClassView& view);
};

struct HttpAuthorizer {
  std::string stat_prefix;
  std::chrono::milliseconds::rep timeout{};
  bool failure_mode_allow = false;

  static std::optional<HttpAuthorizer> of(const ProxySettings& settings);
};

// Sets the limits of a cluster's answers.
void set_header_limits(envoy::extensions::upstreams::http::v3::HttpProtocolOptions& out,
                       const HeaderLimits& limits);

// Requests that the application of a Service gets.
struct RequestForm {
  HttpPaths paths{};
  HeaderNames header_names{};
};

struct InboundHttp {
  HeaderLimits headers;
  std::optional<HttpTracing> tracing;
  std::optional<HttpAuthorizer> authorizer;
  bool answers_probes = false;
  bool counts_requests = false;

  static InboundHttp of(const ClassView& view);
};

struct OutboundHttp {
  HeaderLimits headers;
  std::optional<HttpTracing> tracing;

  static OutboundHttp of(const ClassView& view);
};

// Its counters are those of the dialled port number: counters of each Service would cost memory.
envoy::config::listener::v3::Filter outbound_http_manager(const std::string& route_name, Port port,
                                                          const OutboundHttp& settings,
                                                          const AccessLogs& logs);
// Adds nothing to a request that leaves the mesh, and no span: its trace ends here.
envoy::config::listener::v3::Filter egress_http_manager(const std::string& route_name,
                                                        const HeaderLimits& headers,
                                                        const AccessLogs& logs);

envoy::config::listener::v3::Filter inbound_http_manager(const std::string& route_name,
                                                         Protocol protocol, RequestForm form,
                                                         const InboundHttp& settings,
                                                         const std::vector<HttpLimiter>& limiters,
                                                         const AccessLogs& logs);
// The same for gateways outside of the mesh: it also speaks HTTP/1.0, as nginx does, and answers no
// health check of sidecars.
envoy::config::listener::v3::Filter ingress_http_manager(const std::string& route_name,
                                                         Protocol protocol, RequestForm form,
                                                         const InboundHttp& settings,
                                                         const std::vector<HttpLimiter>& limiters,
                                                         const AccessLogs& logs);

// The clusters that such a connection manager needs besides those of its routes and logs.
std::vector<EncodedResource::Reference> cluster_references(const InboundHttp& settings);

}  // namespace osm::inline v1::translate
