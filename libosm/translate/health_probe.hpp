// How sidecars ask each other whether they are there (ADR 0025). Both sides must agree.
#pragma once

namespace osm::inline v1::translate {

inline constexpr const char* kProbePath = "/healthz/osm";
inline constexpr const char* kProbeHeader = "x-osm-envoy-healthcheck";

}  // namespace osm::inline v1::translate
