// True if the whole text is the literal of an IP address. inet_pton stops at a NUL, so the rest
// would reach scripts and proxies' configuration unchecked.
#pragma once

#include <string_view>

namespace osm::inline v1::model {

bool is_ipv4(std::string_view text);  // "10.0.0.7"
bool is_ipv6(std::string_view text);  // "fd00::7", without brackets and zone

// An IPv4 address at which others can dial one host: none of 0.0.0.0/8 ("this host"), 127.0.0.0/8
// (loopback), 224.0.0.0/4 (multicast) and 240.0.0.0/4 (reserved, and broadcast).
bool is_unicast_ipv4(std::string_view text);
// Why another one is refused.
inline constexpr const char* kNotUnicast =
    "must be an address that one host has: not of 0.0.0.0/8, 127.0.0.0/8 or "
    "224.0.0.0/4, nor 255.255.255.255";

}  // namespace osm::inline v1::model
