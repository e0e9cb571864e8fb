// The names of log levels, for every sink that writes text. Header only, so that every library of
// this project has it beside a shared libosm.
#pragma once

#include <array>
#include <string_view>

#include "base/check.hpp"
#include "osm/log.hpp"

namespace osm::inline v1 {

// "debug", "info", "warning", "error".
inline std::string_view log_level_text(LogLevel level) {
  constexpr std::array<std::string_view, 4> kTexts{"debug", "info", "warning", "error"};
  static_assert(static_cast<std::size_t>(LogLevel::kError) + 1 == kTexts.size());
  const auto at = static_cast<std::size_t>(level);
  OSM_CHECK(at < kTexts.size());
  return kTexts[at];
}

}  // namespace osm::inline v1
