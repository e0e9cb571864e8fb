// A proxy's configuration as JSON of envoy.admin.v3.ConfigDump, for any reader of Envoy's own
// /config_dump. Certificates appear by fingerprint, private keys not at all.
#pragma once

#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::translate {

// One state of one resource. A resource may have an acknowledged state and a pending or refused
// one.
struct DumpedResource {
  XdsType type{};
  std::string name;
  std::string version;
  std::string any;  // EncodedResource::any
  WallTime updated;
  bool acknowledged = false;
  std::string nack_detail;  // Envoy's message; empty: not refused
};

// Dumps `resources`, in any order. A resource whose bytes cannot be parsed is listed without
// content.
std::string config_dump_json(const std::vector<DumpedResource>& resources);

}  // namespace osm::inline v1::translate
