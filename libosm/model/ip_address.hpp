// Whether a text is the literal of an IP address: all of it. inet_pton reads up to a NUL, so that
// what follows one would be taken along into scripts and proxies' configuration unseen.
#pragma once

#include <string_view>

namespace osm::inline v1::model {

bool is_ipv4(std::string_view text);  // "10.0.0.7"
bool is_ipv6(std::string_view text);  // "fd00::7", without brackets and zone

}  // namespace osm::inline v1::model
