// Policy after resolution: who may call whom, how, and because of which object.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/values/service.hpp"
#include "osm/values/smi.hpp"

namespace osm::inline v1 {

// One destination of traffic that is divided.
struct WeightedCluster {
  ServiceName service;
  int weight = 0;

  friend bool operator==(const WeightedCluster&, const WeightedCluster&) = default;
};

// What part of HTTP a policy speaks of. The same shape as the SMI match it comes from.
using RoutePolicy = smi::HttpMatch;

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
  std::vector<RoutePolicy> http_routes;  // any of them
  bool tcp = false;                      // has a TCPRoute rule
  std::vector<Port> tcp_ports;           // empty with tcp: any port

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

// Whether `source` may call `destination`, and what decides (osm policy check).
struct PolicyDecision {
  bool allowed = false;
  std::string reason;                   // a sentence
  std::vector<TrafficPolicy> deciding;  // the targets that allow; empty when denied or permissive
};

}  // namespace osm::inline v1
