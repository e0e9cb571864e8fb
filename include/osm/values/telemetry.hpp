// Access logs of workloads: a Telemetry, policy.openservicemesh.io/v1alpha1, and the collector that
// it names: an ExtensionService, config.openservicemesh.io/v1alpha2. docs/mesh-objects.md has the
// fields and the effects.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "osm/ids.hpp"
#include "osm/object.hpp"

namespace osm::inline v1 {

namespace kinds {
inline constexpr GroupKind kTelemetry{"policy.openservicemesh.io", "Telemetry"};
inline constexpr GroupKind kExtensionService{"config.openservicemesh.io", "ExtensionService"};
}  // namespace kinds

using TelemetryName = NamespacedName<struct TelemetryTag>;
using ExtensionServiceName = NamespacedName<struct ExtensionServiceTag>;

// A gRPC server outside of the mesh, in plain text.
struct ExtensionService {
  std::string host{};  // a DNS name or an IP address
  Port port{};
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(5);

  friend bool operator==(const ExtensionService&, const ExtensionService&) = default;
};

// Form of one line of an access log, with Envoy's commands: "%RESPONSE_CODE%".
struct AccessLogFormat {
  // The form of a line.
  enum class Kind {
    kDefault,  // the mesh's own, JSON
    kText,     // `text` with the values of its commands
    kJson,     // `text` is a JSON object of strings and of such objects
  };
  Kind kind = Kind::kDefault;
  std::string text{};  // empty: kDefault

  friend bool operator==(const AccessLogFormat&, const AccessLogFormat&) = default;
};

// Export of access logs by OpenTelemetry's protocol over gRPC.
struct OpenTelemetryLog {
  ExtensionServiceName service;
  std::map<std::string, std::string> attributes{};  // of each record; values with Envoy's commands

  friend bool operator==(const OpenTelemetryLog&, const OpenTelemetryLog&) = default;
};

// One Telemetry.
struct Telemetry {
  std::map<std::string, std::string> selector{};  // labels of workloads; empty: all
  AccessLogFormat format{};
  std::optional<OpenTelemetryLog> open_telemetry{};

  friend bool operator==(const Telemetry&, const Telemetry&) = default;
};

}  // namespace osm::inline v1
