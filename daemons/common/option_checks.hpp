// Checks of the flags of both daemons.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "osm/log.hpp"

namespace osm::daemon {

inline constexpr int kUsage = 2;  // the exit code of wrong usage

// HOST:PORT.
CLI::Validator tcp_address();
// Accepts values that `valid` accepts; else the error is "'x' is not <what>".
CLI::Validator names(bool (*valid)(std::string_view), const char* what);

// As in LogLevel, in its order.
const std::vector<std::string>& log_levels();
// Precondition: `text` is one of them.
LogLevel log_level_of(const std::string& text);

}  // namespace osm::daemon
