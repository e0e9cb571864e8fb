// Destinations outside of the mesh that Egress objects open to a class, as filter chains
// of the outbound listener, route configurations and clusters. Each chain, route configuration and
// cluster holds the union of what the class's grants allow there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "envoy/config/listener/v3/listener.pb.h"
#include "osm/values/egress.hpp"
#include "translate/class_view.hpp"
#include "translate/input.hpp"
#include "translate/matchers.hpp"

namespace osm::inline v1::translate {

// Connections to one port, and to some networks or TLS names only.
struct EgressChain {
  std::string name;
  Port port{};
  std::vector<std::string> networks;  // "192.0.2.0/24"; empty: any address without another chain
  EgressProtocol protocol{};
  std::string tls_name{};  // kHttps: "example.com", "*.example.com"; empty: any
  std::string routes{};    // kHttp: the route configuration
  std::string cluster{};   // the others
};

// The server of one host name, or the server that the application dials. Plain text, as the
// application sends it: no identity of the mesh leaves it.
struct EgressCluster {
  std::string host;  // looked up by the sidecar; empty: the dialled address
  Port port{};       // of the host
  ConnectionSettings limits{};
};

struct EgressRoute {
  PathMatch match;  // with one method at most
  std::string cluster;
};

struct EgressVirtualHost {
  std::string host;
  std::vector<EgressRoute> routes;  // other requests get 404
};

struct EgressPlan {
  std::vector<EgressChain> chains;  // ordered by name, matches unique; none with global egress
  // Virtual hosts of each route configuration, ordered by host.
  std::map<std::string, std::vector<EgressVirtualHost>> routes;
  std::map<std::string, EgressCluster> clusters;
};

// With global egress: the clusters, kPassthroughCluster among them, without chains and routes.
EgressPlan egress_plan(const ClassView& view);

// Ports on which the listener must read the TLS name, ordered.
std::vector<Port> ports_with_tls_names(const std::vector<EgressChain>& chains);
// The match of the chain.
void set_match(const EgressChain& chain, envoy::config::listener::v3::FilterChainMatch& match);
// Switches a listener filter off on all other ports. Precondition: there is a port.
void use_only_on(const std::vector<Port>& ports,
                 envoy::config::listener::v3::ListenerFilter& filter);

std::vector<InputPtr> egress_route_inputs(const ClassView& view);

}  // namespace osm::inline v1::translate
