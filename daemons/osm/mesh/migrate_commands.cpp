// `osm migrate check`: what the objects of an OSM v1.2 cluster mean here.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>
#include <iterator>
#include <memory>
#include <vector>

#include "base/read_file.hpp"
#include "mesh/commands.hpp"
#include "osm/migrate/check.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using migrate::Difference;
using migrate::Report;

struct MigrateOptions {
  std::vector<std::string> dumps;
  std::string mesh_name, osm_namespace;  // empty: found in the dump
};

Result<std::string> read_dump(const std::string& path) {
  if (path != "-") return read_file(path, migrate::kMaxDumpBytes);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (std::cin.bad())
    return Error{ErrorCode::kUnreadableSource, "standard input cannot be read; name a file"};
  return text;
}

Result<Report> report_of(const MigrateOptions& options) {
  std::vector<migrate::Dump> dumps;
  for (const std::string& path : options.dumps) {
    OSM_TRY(std::string text, read_dump(path));
    dumps.push_back({path == "-" ? "standard input" : path, std::move(text)});
  }
  const auto given = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
  };
  return migrate::check(dumps, {given(options.mesh_name), given(options.osm_namespace)});
}

std::size_t count(const Report& report, migrate::Access access) {
  return static_cast<std::size_t>(
      std::count_if(report.differences.begin(), report.differences.end(),
                    [&](const Difference& each) { return each.access == access; }));
}

json::value to_json(const Report& report) {
  json::array differences;
  for (const Difference& each : report.differences)
    differences.push_back({{"object", each.object.str()},
                           {"kind", each.object.kind},
                           {"namespace", each.object.ns},
                           {"name", each.object.name},
                           {"apiVersion", each.api_version},
                           {"verdict", verdict_text(each.verdict)},
                           {"access", access_text(each.access)},
                           {"field", each.field},
                           {"file", each.path},
                           {"line", each.line},
                           {"reason", each.reason},
                           {"remedy", each.remedy}});
  return {{"differences", std::move(differences)},
          {"notes", json::array(report.notes.begin(), report.notes.end())},
          {"objects",
           {{"same", report.same},
            {"more", report.more},
            {"less", report.less},
            {"nothing", report.nothing},
            {"other", report.others}}},
          {"access",
           {{"refused", count(report, migrate::Access::kRefused)},
            {"allowed", count(report, migrate::Access::kAllowed)}}}};
}

// A row for each difference, and below it the texts, which are too long for a column.
std::string to_table(const Report& report) {
  const auto row = [](std::size_t width, std::string_view object, std::string_view verdict,
                      std::string_view access, std::string_view field) {
    return fmt::format("{:<{}}  {:<7}  {:<7}  {}\n", object, width, verdict, access, field);
  };
  std::size_t width = std::string_view("OBJECT").size();
  for (const Difference& each : report.differences)
    width = std::max(width, printable(each.object.str()).size());
  std::string out;
  if (!report.differences.empty()) out += row(width, "OBJECT", "VERDICT", "ACCESS", "FIELD");
  for (const Difference& each : report.differences) {
    out += row(width, printable(each.object.str()), verdict_text(each.verdict),
               access_text(each.access), printable(each.field));
    out += fmt::format("    reason: {}\n    remedy: {}\n", printable(each.reason),
                       printable(each.remedy));
  }
  for (const std::string& note : report.notes) out += "note: " + printable(note) + '\n';
  return out + fmt::format(
                   "{} objects: {} same, {} more, {} less, {} nothing; {} others. Access: {} "
                   "refused here, {} allowed here\n",
                   report.same + report.more + report.less + report.nothing, report.same,
                   report.more, report.less, report.nothing, report.others,
                   count(report, migrate::Access::kRefused),
                   count(report, migrate::Access::kAllowed));
}

int check(const Flags& flags, const MigrateOptions& options) {
  const auto report = report_of(options);
  if (!report.ok()) {
    fail(flags, report.error());
    return kUsage;
  }
  std::cout << (flags.for_programs() ? flags.written(to_json(*report)) : to_table(*report));
  if (!std::cout.flush()) return kUsage;
  return report->access_changes() ? kFailed : kDone;
}

}  // namespace

void add_migrate(CLI::App& root, Flags& flags) {
  CLI::App* group =
      root.add_subcommand("migrate", "Move from OSM v1.2 to libosm")->require_subcommand(1);
  CLI::App* app = group->add_subcommand(
      "check",
      "List each object of a v1.2 cluster that means less, more or nothing here,\n"
      "with reason and remedy. Asks neither cluster nor controller");
  auto options = std::make_shared<MigrateOptions>();
  app->add_option("DUMP", options->dumps, "Files of `kubectl get -o yaml`; -: standard input")
      ->required();
  app->add_option("--mesh-name", options->mesh_name,
                  "Name of the mesh (default: that of the namespaces' labels)");
  app->add_option("--osm-namespace", options->osm_namespace,
                  "Namespace of the control plane (default: that of the\nMeshConfig)");
  add_output(*app, flags);
  app->footer(
      "VERDICT: the object means less, more or nothing here. ACCESS: refused, if something\n"
      "is refused here that v1.2 allowed; allowed, if something is allowed here that v1.2\n"
      "refused; same otherwise.\n"
      "\n"
      "Example:\n"
      "  osm migrate check osm-v1.2.yaml\n"
      "  osm migrate check policies.yaml pods.yaml -o json\n"
      "  osm migrate check - < osm-v1.2.yaml\n"
      "\n"
      "Exit codes: 0 access stays the same; 1 something is refused that was allowed, or\n"
      "allowed that was refused; 2 wrong usage, or a dump that cannot be read");
  app->callback([&flags, options] { flags.exit_code = check(flags, *options); });
}

}  // namespace osm::cli
