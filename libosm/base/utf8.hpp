// UTF-8, as protobuf and JSON require it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// Length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none (also for
// overlong forms, surrogates and values beyond U+10FFFF).
OSM_API std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

// `text` with U+FFFD in place of each byte that belongs to no well-formed sequence.
OSM_API std::string to_utf8(std::string_view text);

// `text` with `escape` and two hexadecimal digits in place of each control character: U+0000 to
// U+001F, and U+007F to U+009F. They could move a terminal's cursor or write its clipboard. Marks
// that turn the direction of text, such as U+202E, would show it as another text: they become
// "\\u202e".
OSM_API std::string escape_controls(std::string_view text, std::string_view escape);

}  // namespace osm::inline v1
