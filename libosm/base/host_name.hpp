// Hosts in one form, for flags and for objects.
#pragma once

#include <arpa/inet.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// A host in its one form: a DNS name as of dns_name_of(), or the literal of an IPv4 or IPv6
// address, without brackets; nullopt: it is neither.
inline std::optional<std::string> host_name_of(std::string_view text) {
  std::array<unsigned char, 16> ignored{};
  const std::string name(text);  // inet_pton() stops at a NUL
  const bool whole = text.find('\0') == std::string_view::npos;
  if (whole && inet_pton(AF_INET6, name.c_str(), ignored.data()) == 1) return name;
  return dns_name_of(text);
}

}  // namespace osm::inline v1
