// Access logs: lines on the proxy's standard output, and records for a collector, one per request
// and per TCP connection. A Telemetry decides on their form.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "envoy/config/accesslog/v3/accesslog.pb.h"
#include "osm/values/telemetry.hpp"
#include "translate/class_view.hpp"

namespace osm::inline v1::translate {

enum class Direction { kOutbound, kInbound };

using AccessLogList = google::protobuf::RepeatedPtrField<envoy::config::accesslog::v3::AccessLog>;

// The access logs of one class. By default: JSON with the keys of the original OSM, and
// `peer_identity`, the URI SAN of the peer of the mutual TLS connection.
struct AccessLogs {
  // Export by OpenTelemetry's protocol.
  struct Export {
    std::string cluster;
    std::string service_name;  // the resource attribute service.name
    std::vector<std::pair<std::string, std::string>> attributes;  // ordered
  };

  AccessLogFormat::Kind kind{};
  std::string text;  // empty: the default
  std::optional<Export> exported;

  static AccessLogs of(const ClassView& view);

  // Adds the logs of an HTTP connection manager or a TCP proxy.
  void add_to(AccessLogList& out, Direction direction) const;
  // Adds the logs of a listener: only of connections that match no filter chain. Chains log their
  // own requests and connections.
  void add_unmatched_to(AccessLogList& out, Direction direction) const;
  // Adds the clusters that the logs need.
  void add_references(std::vector<EncodedResource::Reference>& out) const;
};

// Name of the cluster of an ExtensionService.
std::string extension_cluster_name(const ExtensionServiceName& service);

// "<account>.<namespace>", as the bootstrap names the proxy's cluster.
std::string telemetry_service_name(const ServiceIdentity& identity);

}  // namespace osm::inline v1::translate
