// Parsers of texts in fields of several kinds.
#pragma once

#include <optional>
#include <string_view>

namespace osm::inline v1::spec {

// Parses Go's duration text: "48h", "1h30m", "1.5h". Nullopt: invalid or negative.
// https://pkg.go.dev/time#ParseDuration
std::optional<double> seconds_of(std::string_view text);

// An IPv4 network: "10.0.0.0/8".
bool is_network(std::string_view text);

// A token of RFC 9110: "x-user", never empty.
bool is_header_name(std::string_view text);

}  // namespace osm::inline v1::spec
