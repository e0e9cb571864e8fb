#include "base/log_level.hpp"

#include <array>

#include "base/check.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// Exported for the other libraries of this project.
OSM_API std::string_view log_level_text(LogLevel level) {
  constexpr std::array<std::string_view, 4> kTexts{"debug", "info", "warning", "error"};
  static_assert(static_cast<std::size_t>(LogLevel::kError) + 1 == kTexts.size());
  const auto at = static_cast<std::size_t>(level);
  OSM_CHECK(at < kTexts.size());
  return kTexts[at];
}

}  // namespace osm::inline v1
