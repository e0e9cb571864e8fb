// What a proxy was sent, as JSON of envoy.admin.v3.ConfigDump: readable by whatever reads Envoy's
// own /config_dump. Certificates appear by fingerprint, private keys not at all.
#pragma once

#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::translate {

// One state of one resource. The acknowledged one and a pending or refused one may both be there.
struct DumpedResource {
  XdsType type{};
  std::string name;
  std::string version;
  std::string any;  // EncodedResource::any
  WallTime updated;
  bool acknowledged = false;
  std::string nack_detail;  // Envoy's words; empty: not refused
};

// `resources` in any order. One of whose bytes nothing can be read is listed without its content.
std::string config_dump_json(const std::vector<DumpedResource>& resources);

}  // namespace osm::inline v1::translate
