// A v1 Pod with a sidecar, decoded to the fields that the mesh needs.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr const char* kProxyUuidLabel = "osm-proxy-uuid";

struct Pod {
  WorkloadName name;
  std::string uid;
  std::string created;  // RFC 3339 in UTC; text order is time order
  std::map<std::string, std::string> labels;
  ServiceAccount account;
  ProxyId proxy_id;
  bool mounts_bootstrap = false;       // mounts the Secret of `proxy_id`
  std::vector<std::string> addresses;  // IPv4 before IPv6; empty before its node has assigned one
  std::map<std::string, Port> ports;   // named TCP ports

  friend bool operator==(const Pod&, const Pod&) = default;
};

struct DecodedPod {
  std::optional<Pod> value;        // absent: no sidecar, ended, or invalid
  std::optional<Problem> problem;  // reason if invalid
};

DecodedPod decode_pod(const Object& object);

// "envoy-bootstrap-config-<uuid>": the Secret that the injector makes for one proxy.
inline constexpr std::string_view kBootstrapSecretPrefix = "envoy-bootstrap-config-";
OSM_API std::string bootstrap_secret(const ProxyId& proxy_id);

// True if a pod with this spec mounts the Secret.
bool mounts_secret(const boost::json::object& spec, const std::string& secret);

// Result: true if the port of a container or slice carries TCP, the default.
bool is_tcp(const boost::json::value& port);

}  // namespace osm::inline v1::kubernetes
