// Calls from outside of the mesh, as IngressBackends admit them: chains of the inbound
// listener, and their routes.
//
// A chain matches one port and either plain text or TLS without the mesh's ALPN, so no connection
// of a sidecar arrives in it. Addresses and names are checked in the routes, per request: a gateway
// that comes or goes changes no chain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "envoy/config/listener/v3/listener_components.pb.h"
#include "osm/values/mesh_config.hpp"
#include "translate/class_view.hpp"
#include "translate/global_limits.hpp"
#include "translate/http_manager.hpp"
#include "translate/server_limits.hpp"

namespace osm::inline v1::translate {

struct IngressChain {
  ServiceName service;
  Port target_port{};
  Protocol protocol{};  // of the port
  RequestForm form{};
  std::string routes;
  bool tls = false;
  std::vector<std::string> server_names{};  // with TLS; empty: any
  // Names of client certificates; absent: none is asked for.
  std::optional<std::vector<std::string>> principals{};
  ConnectionLimits limits{};
  std::vector<HttpLimiter> limiters{};
  bool for_mesh_names = false;  // a second chain of the port: see ingress_chains()

  std::string name() const;
};

// The chains of the class, ordered by name, with unique matches: of two Services the first by name
// has the connections that both could get. Envoy never falls back from a server name that some
// chain matches exactly. So a backend for any server name has a second chain for the names that
// the port's mesh chains match.
std::vector<IngressChain> ingress_chains(const ClassView& view);

envoy::config::listener::v3::FilterChain filter_chain_of(const IngressChain& chain,
                                                         const TlsSettings& settings,
                                                         const InboundHttp& http,
                                                         const AccessLogs& logs,
                                                         Encoding& encoding);

// One route configuration for each Service and port. (OSM v1.2 had one for all, in which the first
// Service got everything.)
void add_ingress_routes(const ClassView& view, std::vector<InputPtr>& inputs);

}  // namespace osm::inline v1::translate
