// Resolved policy: source, destination, permitted traffic, and the object that permits it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/service.hpp"
#include "osm/values/smi.hpp"

namespace osm::inline v1 {

// One destination of split traffic, reached on the port that the client dialled.
struct WeightedCluster {
  ServiceName service;
  int weight = 0;

  friend bool operator==(const WeightedCluster&, const WeightedCluster&) = default;
};

// HTTP requests that a policy permits: those that meet every part. Where they go, how often they
// are repeated and their limits are properties of the Service that is called.
struct RoutePolicy {
  std::string name;                            // of the match
  std::string path_regex = ".*";               // RE2, full match of the path without its query
  std::vector<std::string> methods;            // upper case, ordered; empty: any
  std::map<std::string, std::string> headers;  // name (lower case) → RE2, full match
  smi::ObjectName group = {};                  // HTTPRouteGroup that has the match

  friend bool operator==(const RoutePolicy&, const RoutePolicy&) = default;
};

// One end of a TrafficPolicy: an account and the services it runs.
struct TrafficResource {
  ServiceIdentity identity;
  std::vector<ServiceName> services;

  friend bool operator==(const TrafficResource&, const TrafficResource&) = default;
};

// One TrafficTarget, resolved, between one source and its destination.
struct TrafficPolicy {
  smi::ObjectName target;
  TrafficResource source;
  TrafficResource destination;
  std::vector<RoutePolicy> http_routes;  // a request must match one of them, on one of tcp_ports
  bool tcp = false;                      // has a TCPRoute rule
  std::vector<Port> tcp_ports;           // ports of the workload; empty: any

  friend bool operator==(const TrafficPolicy&, const TrafficPolicy&) = default;
};

// One TrafficTarget, resolved, as its destination enforces it.
struct InboundTrafficPolicy {
  smi::ObjectName target;
  std::vector<ServiceIdentity> sources;  // ordered; empty: nobody
  std::vector<RoutePolicy> http_routes;
  bool tcp = false;
  std::vector<Port> tcp_ports;

  friend bool operator==(const InboundTrafficPolicy&, const InboundTrafficPolicy&) = default;
};

// One backend of an IngressBackend, resolved: the callers from outside of the mesh that workloads
// behind a Service admit at one of their ports. A caller has an address of `networks` and, where a
// certificate is asked for, one of the names.
struct IngressTrafficPolicy {
  ObjectKey ingress;  // the IngressBackend
  Port target_port{};
  std::optional<IngressTls> tls;                     // absent: http
  std::optional<std::vector<std::string>> networks;  // ordered; absent: any address
  std::vector<std::string>
      principals;  // ordered; names of client certificates, if one is asked for

  friend bool operator==(const IngressTrafficPolicy&, const IngressTrafficPolicy&) = default;
};

// Decision on calls from one identity to another, with the objects that decide (osm policy check).
struct PolicyDecision {
  bool allowed = false;
  std::string reason;                   // a sentence
  std::vector<TrafficPolicy> deciding;  // the permitting targets; empty if denied or permissive
};

}  // namespace osm::inline v1
