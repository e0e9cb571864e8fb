#include "option_checks.hpp"

#include <algorithm>

#include "osm/net/address.hpp"

namespace osm::daemon {

// CLI11's way of saying no: the text of what is wrong, empty when nothing is.
CLI::Validator tcp_address() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const auto address = net::parse_address(text);
        if (!address.ok()) return address.error().message;
        return address->is_unix() ? "a Unix socket is not supported here; write HOST:PORT" : "";
      },
      "");
}

CLI::Validator names(bool (*valid)(std::string_view), const char* what) {
  return CLI::Validator(
      [valid, what](std::string& text) {
        return valid(text) ? std::string() : "'" + text + "' is not " + what;
      },
      "");
}

const std::vector<std::string>& log_levels() {
  static const std::vector<std::string> kLevels{"debug", "info", "warning", "error"};
  return kLevels;
}

LogLevel log_level_of(const std::string& text) {
  const auto& levels = log_levels();
  return static_cast<LogLevel>(std::find(levels.begin(), levels.end(), text) - levels.begin());
}

}  // namespace osm::daemon
