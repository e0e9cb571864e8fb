// Checks of UTF-8, as protobuf and JSON require it.
#pragma once

#include <cstddef>
#include <string_view>

namespace osm::inline v1 {

// Length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none (also for
// overlong forms, surrogates and values beyond U+10FFFF).
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace osm::inline v1
