#include "base/log_level.hpp"

#include "base/check.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// Exported for the other libraries of this project.
OSM_API std::string_view log_level_text(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  check_failed("a known LogLevel", __FILE__, __LINE__);
}

}  // namespace osm::inline v1
