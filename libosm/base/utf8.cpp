#include "base/utf8.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace osm::inline v1 {

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  // The Unicode Standard, table 3-7: overlong forms, surrogates and values beyond U+10FFFF show in
  // the second byte.
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const std::uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    out += length == 0 ? "\xef\xbf\xbd" : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

namespace {

// The code point of the mark of direction at the start of `text`; 0: there is none.
unsigned direction_mark(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  if (byte(0) == 0xd8 && byte(1) == 0x9c) return 0x061c;
  if (byte(0) != 0xe2 || (byte(1) != 0x80 && byte(1) != 0x81)) return 0;
  const unsigned mark = 0x2000U + (byte(1) - 0x80U) * 0x40U + (byte(2) & 0x3fU);
  const bool is_mark = mark == 0x200e || mark == 0x200f || (mark >= 0x202a && mark <= 0x202e) ||
                       (mark >= 0x2066 && mark <= 0x2069);
  return is_mark && (byte(2) & 0xc0U) == 0x80U ? mark : 0;
}

}  // namespace

std::string escape_controls(std::string_view text, std::string_view escape) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // U+0080 to U+009F have two bytes, of which the second is the character's number.
    const bool c1 = byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0;
    if (c1) ++i;
    const unsigned mark = direction_mark(text.substr(i));
    if (mark != 0)
      out += fmt::format("\\u{:04x}", mark);
    else if (c1 || byte(i) < 0x20 || byte(i) == 0x7f)
      out += fmt::format("{}{:02x}", escape, byte(i));
    else
      out += text[i];
    if (mark != 0) i += mark < 0x800 ? 1 : 2;  // its other bytes
  }
  return out;
}

}  // namespace osm::inline v1
