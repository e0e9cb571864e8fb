#include "command.hpp"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace osm::cli {

// Read here and not by CLI11: every command has the flag, and one that is not used would let the
// environment win over the one that is.
std::string default_state_dir() {
  const char* named = std::getenv("OSM_STATE_DIR");
  return named && *named ? named : "/var/lib/osm";
}

int fail(const Error& error) {
  std::cerr << "osm: " << printable(error.message) << '\n';
  return kFailed;
}

int print(const Flags& flags, const Result<boost::json::value>& answer,
          std::string (*show)(const boost::json::value&)) {
  if (!answer.ok()) return fail(answer.error());
  std::cout << (flags.as_json() || !show ? boost::json::serialize(*answer) + '\n' : show(*answer));
  return std::cout.flush() ? kDone : kFailed;
}

CLI::App* command(CLI::App& parent, Flags& flags, const char* name, const char* what,
                  const char* example, bool prints) {
  CLI::App* app = parent.add_subcommand(name, what);
  app->footer(std::string("Example:\n  ") + example);
  app->add_option("--state-dir", flags.state_dir,
                  "The controller's --state-dir (default: $OSM_STATE_DIR, else /var/lib/osm)");
  app->add_option("--timeout", flags.timeout_seconds, "Seconds to wait for the controller")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  if (prints) {
    app->add_option("-o,--output", flags.output, "table, or json for programs")
        ->check(CLI::IsMember({"table", "json"}))
        ->capture_default_str();
  }
  return app;
}

void query(CLI::App& parent, Flags& flags, const char* name, const char* what, const char* example,
           const char* path, std::string (*show)(const boost::json::value&)) {
  command(parent, flags, name, what, example)->callback([&flags, path, show] {
    flags.exit_code = print(flags, flags.client().get(path), show);
  });
}

Result<std::chrono::milliseconds> parse_duration(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"", 1000}}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto at =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& u) { return u.first == unit; });
  if (error != std::errc{} || at == kUnits.end() || !(value >= 0 && value <= 86400))
    return Error{ErrorCode::kInvalidArgument, "'" + text + "' is no time; write 500ms, 30s or 2m"};
  return std::chrono::milliseconds(static_cast<long>(value * at->second));
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

}  // namespace osm::cli
