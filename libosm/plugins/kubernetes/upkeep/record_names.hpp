// Names of the records in ConfigMaps.
#pragma once

namespace osm::inline v1::kubernetes {

inline constexpr const char* kRecordKey = "record";
inline constexpr const char* kLastConfigName = "osm-last-mesh-config";

}  // namespace osm::inline v1::kubernetes
