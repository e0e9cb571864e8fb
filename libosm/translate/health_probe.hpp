// Path and header of health checks between sidecars (ADR 0025). Client and server must agree on
// them.
#pragma once

namespace osm::inline v1::translate {

inline constexpr const char* kProbePath = "/healthz/osm";
inline constexpr const char* kProbeHeader = "x-osm-envoy-healthcheck";

}  // namespace osm::inline v1::translate
