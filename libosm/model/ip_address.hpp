// True if the whole text is the literal of an IP address. inet_pton stops at a NUL, so the rest
// would reach scripts and proxies' configuration unchecked.
#pragma once

#include <string_view>

namespace osm::inline v1::model {

bool is_ipv4(std::string_view text);  // "10.0.0.7"
bool is_ipv6(std::string_view text);  // "fd00::7", without brackets and zone

}  // namespace osm::inline v1::model
