// Numbers as text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// Nullopt unless all of `text` is decimal digits (with '-' for signed types) of a number that fits.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Nullopt unless `text` is a port number (1 to 65535).
inline std::optional<Port> port_of(std::string_view text) {
  const auto number = number_of<std::uint16_t>(text);
  return number && *number != 0 ? std::optional(Port{*number}) : std::nullopt;
}

}  // namespace osm::inline v1
