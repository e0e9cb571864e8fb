// The names of log levels, for every sink that writes text.
#pragma once

#include <string_view>

#include "osm/log.hpp"

namespace osm::inline v1 {

// "debug", "info", "warning", "error".
std::string_view log_level_text(LogLevel level);

}  // namespace osm::inline v1
