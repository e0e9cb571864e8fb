// Name of the listener through which a proxy serves its own ports.
#pragma once

namespace osm::inline v1::translate {

inline constexpr const char* kInboundListener = "inbound-listener";

}  // namespace osm::inline v1::translate
