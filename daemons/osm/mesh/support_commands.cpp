// `osm support`: what a person needs to find a fault, in a directory of files; error codes.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "cluster_flags.hpp"
#include "error_codes.hpp"
#include "mesh/commands.hpp"
#include "osm/kubernetes/admin_access.hpp"
#include "osm/kubernetes/objects.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr std::size_t kMaxLogBytes = 1024 * 1024;
constexpr std::size_t kMaxBytes =
    100 * 1024 * 1024;  // of all files; configuration is the first to go

struct ReportFlags {
  std::string directory = "osm-bug-report";
  std::size_t proxies = 20;
};

// Writes files; what could not be read is written as an error in its file.
class Report {
 public:
  explicit Report(std::string directory) : directory_(std::move(directory)) {}

  Status start() const {
    std::error_code failed;
    if (fs::exists(directory_))
      return Error{ErrorCode::kAlreadyExists,
                   directory_ + " exists: name another directory with --out"};
    fs::create_directories(directory_, failed);
    if (failed) return Error{ErrorCode::kStorage, directory_ + ": " + failed.message()};
    fs::permissions(directory_, fs::perms::owner_all, failed);
    return {};
  }

  const json::array& files() const { return files_; }
  bool is_full() const { return bytes_ > kMaxBytes; }

  template <class T>
  Status add(const std::string& name, const Result<T>& content) {
    if (!content.ok()) return write(name + ".error", content.error().message + '\n');
    if constexpr (std::is_same_v<T, std::string>)
      return write(name, *content);
    else
      return write(name, json::serialize(*content) + '\n');
  }

 private:
  Status write(const std::string& name, const std::string& content) {
    bytes_ += content.size();
    files_.emplace_back(name);
    std::ofstream file(fs::path(directory_) / name);
    file << content;
    if (file.flush()) return {};
    return Error{ErrorCode::kStorage, directory_ + '/' + name + ": it could not be written"};
  }

  const std::string directory_;
  std::size_t bytes_ = 0;
  json::array files_;
};

Status add_answers(const AdminClient& client, Report& report, std::size_t dumps) {
  for (const char* name : {"version", "problems", "certificates", "roots", "denied", "graph"})
    OSM_TRY(report.add(std::string(name) + ".json", client.get(std::string("/v1/") + name)));
  const auto proxies = client.get("/v1/proxies");
  OSM_TRY(report.add("proxies.json", proxies));
  if (!proxies.ok()) return {};
  for (const json::value& proxy : list_at(*proxies, "proxies")) {
    if (dumps-- == 0 || report.is_full()) break;
    const std::string uuid = text_at(proxy, "uuid");
    OSM_TRY(report.add("config_dump." + uuid + ".json",
                       client.get("/v1/proxies/config_dump", {{"name", uuid}})));
  }
  return {};
}

Status add_cluster_parts(const MeshFlags& mesh, Report& report) {
  OwnRuntime runtime({.least = LogLevel::kError});
  const auto cluster = connect(mesh.cluster, runtime);
  if (!cluster.ok()) return report.add("cluster", Result<std::string>(cluster.error()));
  const std::string& ns = mesh.osm_namespace;
  OSM_TRY(report.add(
      "meshconfig.json",
      kubernetes::get_object(**cluster,
                             {"config.openservicemesh.io", "v1alpha2", "meshconfigs", "MeshConfig"},
                             ns, "osm-mesh-config")));
  for (const char* name : {"osm-controller", "osm-injector"}) {
    OSM_TRY(report.add(
        fmt::format("deployment.{}.json", name),
        kubernetes::get_object(**cluster, {"apps", "v1", "deployments", "Deployment"}, ns, name)));
    const auto pods = kubernetes::list_running(**cluster, ns, name);
    if (!pods.ok())
      OSM_TRY(report.add(std::string("pods.") + name, Result<std::string>(pods.error())));
    if (!pods.ok()) continue;
    for (const auto& pod : *pods)
      OSM_TRY(report.add("log." + pod.name,
                         kubernetes::read_log(**cluster, ns, pod.name, kMaxLogBytes)));
  }
  return {};
}

// Result: what was written.
Result<json::value> write_report(const Flags& flags, const ReportFlags& options) {
  Report report(options.directory);
  OSM_TRY(report.start());
  const AdminClient client = flags.client();
  OSM_TRY(add_answers(client, report, options.proxies));
  if (!client.is_local()) OSM_TRY(add_cluster_parts(flags.mesh, report));
  return json::value{{"directory", options.directory}, {"files", report.files()}};
}

std::string show_report(const json::value& report) {
  return "Wrote " + text_at(report, "directory") + '\n';
}

void add_bug_report(CLI::App& support, Flags& flags) {
  auto options = std::make_shared<ReportFlags>();
  CLI::App* app =
      command(support, flags, "bug-report",
              "Write a directory of files without keys: state, logs, some configurations",
              "osm support bug-report --out ./report && tar czf report.tgz report");
  app->add_option("--out", options->directory, "Directory to make")->capture_default_str();
  app->add_option("--proxies", options->proxies, "Most proxies whose configuration is written")
      ->capture_default_str();
  app->callback([&flags, options] {
    options->directory = absolute(options->directory);
    flags.exit_code = print(flags, write_report(flags, *options), show_report);
  });
}

Result<json::value> list_codes(const std::string& wanted) {
  json::array codes;
  std::string known;
  for (const CodeHelp& each : error_codes()) {
    known += (known.empty() ? "" : ", ") + each.code;
    if (!wanted.empty() && each.code != wanted) continue;
    codes.push_back(json::object{{"code", each.code},
                                 {"meaning", each.meaning},
                                 {"cause", each.cause},
                                 {"remedy", each.remedy}});
  }
  if (codes.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "there is no error code '" + wanted + "'; there are: " + known};
  return json::value(json::object{{"codes", std::move(codes)}});
}

std::string show_error_codes(const json::value& answer) {
  std::string out;
  for (const json::value& code : list_at(answer, "codes"))
    out += fmt::format("{}{}\n  meaning: {}\n  cause:   {}\n  remedy:  {}\n",
                       out.empty() ? "" : "\n", text_at(code, "code"), text_at(code, "meaning"),
                       text_at(code, "cause"), text_at(code, "remedy"));
  return out;
}

void add_error_info(CLI::App& support, Flags& flags) {
  auto code = std::make_shared<std::string>();
  CLI::App* app =
      support.add_subcommand("error-info", "Meaning, typical cause and remedy of error codes");
  app->footer(
      "Example:\n"
      "  osm support error-info dangling-reference\n"
      "  osm support error-info -o json");
  app->add_option("CODE", *code, "Code of an error or a problem (default: all)");
  add_output(*app, flags);
  app->callback(
      [&flags, code] { flags.exit_code = print(flags, list_codes(*code), show_error_codes); });
}

}  // namespace

void add_support(CLI::App& root, Flags& flags) {
  CLI::App* support = root.add_subcommand("support", "Help with faults")->require_subcommand(1);
  add_bug_report(*support, flags);
  add_error_info(*support, flags);
}

}  // namespace osm::cli
