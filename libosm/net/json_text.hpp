// JSON text from any bytes: escapes control characters, replaces bytes that are not UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace osm::inline v1::net {

// Appends `text` as a JSON string with quotes, always on one line.
void append_json_string(std::string& out, std::string_view text);
std::string json_string(std::string_view text);

}  // namespace osm::inline v1::net
