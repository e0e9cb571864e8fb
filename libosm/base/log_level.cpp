#include "base/log_level.hpp"

#include "base/check.hpp"

namespace osm {

std::string_view log_level_text(LogLevel level) {
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

}  // namespace osm
