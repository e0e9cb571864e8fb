// Text as protobuf, JSON and people expect it.
#pragma once

#include <cstddef>
#include <string_view>

namespace osm::inline v1 {

// The length of the well-formed UTF-8 sequence that `text` starts with, 0 when it is none
// (overlong forms, surrogates and what is beyond U+10FFFF included).
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace osm::inline v1
