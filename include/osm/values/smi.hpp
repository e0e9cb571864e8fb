// Supported SMI objects, decoded and valid: access v1alpha3, specs v1alpha4, split v1alpha2.
// https://github.com/servicemeshinterface/smi-spec
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::smi {

using ObjectName = NamespacedName<struct SmiObjectTag>;

// One named match of an HTTPRouteGroup. A request matches if all parts match.
struct HttpMatch {
  std::string name;
  std::string path_regex = ".*";               // RE2, full match of the path without its query
  std::vector<std::string> methods;            // upper case, ordered; empty: any
  std::map<std::string, std::string> headers;  // name (lower case) → RE2, full match

  friend bool operator==(const HttpMatch&, const HttpMatch&) = default;
};

// Named HTTP matches that targets refer to.
struct HttpRouteGroup {
  ObjectName name;
  std::vector<HttpMatch> matches;

  friend bool operator==(const HttpRouteGroup&, const HttpRouteGroup&) = default;
};

// Ports that targets refer to.
struct TcpRoute {
  ObjectName name;
  std::vector<Port> ports;  // the workload's ports; empty: any

  friend bool operator==(const TcpRoute&, const TcpRoute&) = default;
};

// Kind of object that a rule names.
enum class RouteKind { kHttpRouteGroup, kTcpRoute };

// One rule of a target: a route object, or some of its matches.
struct TrafficTargetRule {
  RouteKind kind = RouteKind::kHttpRouteGroup;
  std::string name;  // name of the route object, in the target's namespace
  std::vector<std::string>
      matches;  // names of an HTTPRouteGroup's matches; none: no HTTP route is allowed
  // In spec.rules as written: rules that were left out count. The decoder sets it; a host that
  // makes targets counts its rules. Explanations and problems name it, and no proxy is sent it.
  std::size_t place = 0;

  friend bool operator==(const TrafficTargetRule&, const TrafficTargetRule&) = default;
};

// Allows its sources to call its destination as its rules say.
struct TrafficTarget {
  ObjectName name;
  ServiceAccount destination;           // in the target's own namespace
  std::vector<ServiceAccount> sources;  // ordered
  std::vector<TrafficTargetRule> rules;

  friend bool operator==(const TrafficTarget&, const TrafficTarget&) = default;
};

// One share of a split.
struct SplitBackend {
  std::string service;  // in the split's namespace
  int weight = 0;
  std::size_t place = 0;  // in spec.backends, as TrafficTargetRule::place

  friend bool operator==(const SplitBackend&, const SplitBackend&) = default;
};

// Divides the requests to one service among other services, by weight.
struct TrafficSplit {
  ObjectName name;
  ServiceName service;  // the apex clients call
  std::vector<SplitBackend> backends;

  friend bool operator==(const TrafficSplit&, const TrafficSplit&) = default;
};

}  // namespace osm::inline v1::smi
