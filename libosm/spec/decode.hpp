// Objects as they were written into the values the mesh works with. Pure; every problem of an
// object is collected. Problems carry object and field, not yet path and line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "osm/mesh_config.hpp"
#include "osm/object.hpp"
#include "osm/service.hpp"
#include "osm/smi.hpp"

namespace osm::spec {

template <class T>
struct Decoded {
  std::optional<T> value;  // absent: the object is invalid and left out
  std::vector<Problem> problems;
};

Decoded<Service> decode_service(const Object& object);
Decoded<ServiceAccount> decode_service_account(const Object& object);
Decoded<smi::HttpRouteGroup> decode_http_route_group(const Object& object);
Decoded<smi::TcpRoute> decode_tcp_route(const Object& object);
Decoded<smi::TrafficTarget> decode_traffic_target(const Object& object);
Decoded<smi::TrafficSplit> decode_traffic_split(const Object& object);
Decoded<MeshConfig> decode_mesh_config(const Object& object);

// Why `regex` cannot be used, or nullopt. RE2, as Envoy matches.
std::optional<std::string> why_bad_regex(const std::string& regex);

}  // namespace osm::spec
