#include "command.hpp"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "error_codes.hpp"

namespace osm::cli {
namespace {

using std::chrono::milliseconds;

struct Unit {
  std::string_view name;
  double milliseconds;
};
constexpr std::array<Unit, 4> kUnits{{{"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};

// "1h30m": one number with its unit, or several that are added up.
std::optional<milliseconds> parse_time(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, failed] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (failed != std::errc{} || text.front() < '0' || text.front() > '9') return std::nullopt;
    text = {rest, static_cast<std::size_t>(end - rest)};
    const std::string_view name = text.substr(0, text.find_first_of("0123456789"));
    const auto* unit = std::find_if(kUnits.begin(), kUnits.end(),
                                    [&](const Unit& each) { return each.name == name; });
    if (unit == kUnits.end()) return std::nullopt;
    sum += number * unit->milliseconds;
    text.remove_prefix(name.size());
  }
  constexpr double kMost = 1e12;  // thirty years
  return milliseconds(static_cast<long>(std::min(sum, kMost)));
}

std::string footer_of(const char* example) { return std::string("Example:\n  ") + example; }

// Whole units only: "1h30m".
std::string time_text(milliseconds time) {
  std::string text;
  auto left = static_cast<double>(time.count());
  for (const Unit& unit : kUnits) {
    const auto whole = static_cast<long>(left / unit.milliseconds);
    if (whole > 0) text += std::to_string(whole).append(unit.name);
    left -= static_cast<double>(whole) * unit.milliseconds;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace

ExitCode exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return kUsage;
    case ErrorCode::kPermissionDenied:
    case ErrorCode::kUnknownProxy:
      return kDenied;
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kUnreadableSource:  // of a kubeconfig
      return kNotAsked;
    case ErrorCode::kNotReady:
      return kNotYet;
    default:
      return kFailed;
  }
}

int fail(const Flags& flags, const Error& error) {
  const std::string_view code = error_code_text(error.code);
  if (flags.for_programs())
    std::cout << flags.written({{"error",
                                 {{"code", code},
                                  {"message", to_utf8(error.message)},
                                  {"remedy", remedy_of(code)}}}})
              << std::flush;
  else
    std::cerr << "osm: " << printable(error.message) << " [" << code << "]\n";
  return exit_code_of(error);
}

int print(const Flags& flags, const Result<boost::json::value>& answer,
          std::string (*show)(const boost::json::value&)) {
  if (!answer.ok()) return fail(flags, answer.error());
  std::cout << (flags.for_programs() || !show ? flags.written(*answer) : show(*answer));
  return std::cout.flush() ? kDone : kFailed;
}

CLI::App* command(CLI::App& parent, Flags& flags, const char* name, const char* what,
                  const char* example, bool prints) {
  CLI::App* app = parent.add_subcommand(name, what);
  app->footer(footer_of(example));
  // $OSM_STATE_DIR is not read by CLI11: of a command that is not used it would win over the one
  // that is.
  app->add_option("--state-dir", flags.mesh.state_dir,
                  "Of a controller on this machine: its --state-dir (default: $OSM_STATE_DIR, else "
                  "/var/lib/osm if a controller runs there)");
  add_cluster(*app, flags.mesh.cluster);
  app->add_option("--osm-namespace", flags.mesh.osm_namespace,
                  "Namespace of the control plane, on Kubernetes")
      ->capture_default_str();
  add_time(*app, "--timeout", flags.timeout, "Longest wait for the controller",
           {milliseconds(100), std::chrono::minutes(10)});
  if (prints) add_output(*app, flags);
  return app;
}

CLI::App* cluster_command(CLI::App& parent, Flags& flags, const char* name, const char* what,
                          const char* example, bool prints) {
  CLI::App* app = parent.add_subcommand(name, what);
  app->footer(footer_of(example));
  add_cluster(*app, flags.mesh.cluster);
  if (prints) add_output(*app, flags);
  return app;
}

void add_strict(CLI::App& app, bool& strict) {
  app.footer(app.get_footer() +
             "\n\nExit codes: 0 no errors, and with --strict no warnings; 1 there are some");
  app.add_flag("--strict", strict, "End with 1 for warnings too, not for errors only");
}

void add_output(CLI::App& app, Flags& flags) {
  app.add_option("-o,--output", flags.output, "table, or json or yaml for programs")
      ->check(CLI::IsMember({"table", "json", "yaml"}))
      ->capture_default_str();
}

void query(CLI::App& parent, Flags& flags, const char* name, const char* what, const char* example,
           const char* path, std::string (*show)(const boost::json::value&)) {
  command(parent, flags, name, what, example)->callback([&flags, path, show] {
    flags.exit_code = print(flags, flags.client().get(path), show);
  });
}

CLI::Option* add_time(CLI::App& app, const char* names, milliseconds& time, const char* what,
                      TimeRange range) {
  const auto read = [names, &time, range](const std::string& text) {
    const auto given = parse_time(text);
    if (!given)
      throw CLI::ValidationError(names,
                                 '\'' + text + "' is no time; write 500ms, 30s, 5m or 1h30m");
    if (*given < range.least || *given > range.most)
      throw CLI::ValidationError(names, text + " is not between " + time_text(range.least) +
                                            " and " + time_text(range.most));
    time = *given;
  };
  CLI::Option* option = app.add_option_function<std::string>(names, read, what)->type_name("TIME");
  return time > milliseconds::zero() ? option->default_str(time_text(time)) : option;
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

}  // namespace osm::cli
