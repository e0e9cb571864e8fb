// Links of objects: the entries of a snapshot that an object of the specification shapes, the
// objects whose values it takes over, and its claims. Resolvers read the fields of each kind; other
// code asks for links. Pure.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "osm/object.hpp"
#include "osm/values/policy.hpp"
#include "osm/values/service.hpp"
#include "osm/values/smi.hpp"
#include "osm/values/telemetry.hpp"

namespace osm::inline v1::model {

// Key of an entry: of a TrafficTarget, a Service, an identity, a Telemetry or a workload.
// Monostate: the mesh, which is part of every proxy's configuration.
using EntryKey = std::variant<std::monostate, smi::ObjectName, ServiceName, ServiceIdentity,
                              TelemetryName, WorkloadName>;

// Something of a Service that one object has, in a field of the object.
struct Claim {
  ServiceName service;
  std::string text;   // what its owner does: "splits Service shop/api"
  std::string field;  // "spec.service"

  friend bool operator==(const Claim&, const Claim&) = default;
};

struct Links {
  std::vector<EntryKey> entries;   // that the object shapes, or would shape
  std::vector<ObjectKey> reads{};  // objects whose values it takes over, present or not
  std::vector<Claim> claims{};     // in the order of its fields
  bool origins = false;            // its entries keep an Origin of each value that it makes

  friend bool operator==(const Links&, const Links&) = default;
};

Links links_of(const smi::TrafficTarget& target);
Links links_of(const smi::TrafficSplit& split);
Links links_of(const Policy& policy);
inline Links links_of(const Service& service) { return {{service.name}, {}, {}, true}; }
// Routes shape nothing by themselves: targets and Egresses read them.
inline Links links_of(const smi::HttpRouteGroup&) { return {}; }
inline Links links_of(const smi::TcpRoute&) { return {}; }

}  // namespace osm::inline v1::model
