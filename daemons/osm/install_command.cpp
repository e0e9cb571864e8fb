// `osm install`: the control plane on a Kubernetes cluster.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json.hpp"
#include "base/read_file.hpp"
#include "cluster_flags.hpp"
#include "command.hpp"
#include "osm/kubernetes/install.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

constexpr std::size_t kMaxValuesBytes = 1024 * 1024;
constexpr std::chrono::milliseconds kPoll{500};

struct InstallOptions {
  kubernetes::ChartOptions chart;
  ClusterFlags cluster;
  std::vector<std::string> files;
  std::string mesh_name, output = "table", timeout = "5m";
  bool dry_run = false, no_wait = false, force = false, show_values = false;
};

Result<std::vector<kubernetes::Manifest>> render(InstallOptions& options) {
  for (const std::string& path : options.files) {
    OSM_TRY(std::string text, read_file(path, kMaxValuesBytes));
    options.chart.values_files.push_back({path, std::move(text)});
  }
  if (!options.mesh_name.empty())
    options.chart.settings.push_back("osm.meshName=" + options.mesh_name);
  return kubernetes::render_chart(options.chart);
}

int print_manifests(const std::vector<kubernetes::Manifest>& manifests, bool as_json) {
  json::array items;
  for (const kubernetes::Manifest& manifest : manifests) {
    if (as_json)
      items.push_back(json::parse(manifest.json));
    else
      std::cout << "---\n# Source: " << manifest.source << '\n' << manifest.yaml;
  }
  if (as_json)
    std::cout << json::serialize(
                     json::object{{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}})
              << '\n';
  return std::cout.flush() ? kDone : kFailed;
}

// The mesh's name, which the webhook configurations have as a label.
std::string mesh_name_of(const std::vector<kubernetes::Manifest>& manifests) {
  for (const kubernetes::Manifest& manifest : manifests) {
    const json::value object = json::parse(manifest.json);
    const std::string name =
        text_at(map_at(map_at(object, "metadata"), "labels"), "app.kubernetes.io/instance");
    if (!name.empty()) return name;
  }
  return {};
}

const char* word_of(kubernetes::Change change) {
  if (change == kubernetes::Change::kCreated) return "created";
  return change == kubernetes::Change::kChanged ? "changed" : "unchanged";
}

// Waits until nothing is missing. A person is told what is.
Status wait_until_up(kubernetes::Cluster& cluster,
                     const std::vector<kubernetes::Manifest>& manifests,
                     std::chrono::milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  std::string told;
  while (true) {
    const auto missing = kubernetes::missing_part(cluster, manifests);
    if (missing.ok() && missing->empty()) return {};
    const std::string now = missing.ok() ? *missing : missing.error().message;
    if (steady_clock::now() >= deadline)
      return Error{ErrorCode::kDeadlineExceeded,
                   "the objects are applied, but the mesh is not up in time: " + now +
                       ". Look at `kubectl get pods,events` of its namespace"};
    if (now != told) std::cerr << "waiting: " << printable(now) << '\n';
    told = now;
    std::this_thread::sleep_for(kPoll);
  }
}

int apply(const InstallOptions& options, const std::vector<kubernetes::Manifest>& manifests,
          std::chrono::milliseconds timeout) {
  OwnRuntime runtime({.least = LogLevel::kError});
  const auto cluster = connect(options.cluster, runtime);
  if (!cluster.ok()) return fail(cluster.error());
  if (const Status alone = kubernetes::check_no_other_mesh(**cluster, manifests); !alone.ok())
    return fail(alone.error());
  json::array applied;
  const auto report = [&](const std::string& object, const char* change) {
    if (options.output == "table")
      std::cout << fmt::format("{:<10}{}\n", change, object) << std::flush;
    applied.push_back(json::object{{"object", object}, {"change", change}});
  };
  const auto removed = kubernetes::prune(**cluster, manifests);
  if (!removed.ok()) return fail(removed.error());
  for (const std::string& object : *removed) report(object, "deleted");
  for (const kubernetes::Manifest& manifest : manifests) {
    const auto done = kubernetes::apply_manifest(**cluster, manifest, options.force);
    if (!done.ok()) {
      Error error = done.error();
      if (error.code == ErrorCode::kConflict)
        error.message += "; --force-conflicts takes the field over from that manager";
      return fail(error);
    }
    report(done->object, word_of(done->change));
  }
  if (!options.no_wait)
    if (const Status up = wait_until_up(**cluster, manifests, timeout); !up.ok())
      return fail(up.error());
  const std::string& ns = options.chart.osm_namespace;
  if (options.output == "json") {
    std::cout << json::serialize(json::object{{"namespace", ns}, {"objects", applied}}) << '\n';
  } else {
    std::cout << fmt::format(
        "OSM {} in namespace {}.\n"
        "Next: let a namespace join the mesh, and restart its pods:\n"
        "  kubectl label namespace <name> openservicemesh.io/monitored-by={}\n"
        "  kubectl annotate namespace <name> openservicemesh.io/sidecar-injection=enabled\n"
        "  kubectl rollout restart deployment -n <name>\n",
        options.no_wait ? "is applied" : "is up", ns, mesh_name_of(manifests));
  }
  return std::cout.flush() ? kDone : kFailed;
}

int run_install(InstallOptions& options) {
  if (options.show_values) {
    std::cout << kubernetes::chart_values();
    return std::cout.flush() ? kDone : kFailed;
  }
  if (options.output == "yaml" && !options.dry_run) {
    std::cerr << "osm: -o yaml prints the objects: it needs --dry-run\n";
    return kUsage;
  }
  const auto timeout = parse_duration(options.timeout);
  if (!timeout.ok()) return fail(timeout.error()), kUsage;
  const auto manifests = render(options);
  if (!manifests.ok()) return fail(manifests.error());
  if (options.dry_run) return print_manifests(*manifests, options.output == "json");
  return apply(options, *manifests, *timeout);
}

}  // namespace

void add_install(CLI::App& root, Flags& flags) {
  auto options = std::make_shared<InstallOptions>();
  CLI::App* app = root.add_subcommand(
      "install", "Install the mesh on a Kubernetes cluster, or change its values");
  app->footer(
      "Example:\n"
      "  osm install --show-values > values.yaml\n"
      "  osm install -f values.yaml --set osm.image.registry=registry.example.com/mesh\n"
      "  osm install --set osm.osmController.autoScale.enable=true\n"
      "  osm install --dry-run > mesh.yaml      (for GitOps; `kubectl apply --server-side -f`)\n"
      "Values are those of charts/osm. A second run changes only what differs.");
  app->add_option("--osm-namespace", options->chart.osm_namespace, "Namespace of the control plane")
      ->capture_default_str();
  app->add_option("--mesh-name", options->mesh_name, "Short for --set osm.meshName=NAME");
  app->add_option("-f,--values", options->files,
                  "YAML file with values; may be repeated, the last wins");
  app->add_option(
         "--set", options->chart.settings,
         "PATH=VALUE of one value, or several with commas; may be repeated, and wins over files")
      ->allow_extra_args(false);
  app->add_flag("--show-values", options->show_values,
                "Print all values with their defaults, and end");
  app->add_flag("--dry-run", options->dry_run, "Print the objects, and change nothing");
  add_cluster(*app, options->cluster);
  app->add_flag(
      "--force-conflicts", options->force,
      "Take over fields that another manager, such as kubectl or helm, has set differently");
  app->add_flag("--no-wait", options->no_wait, "Do not wait until the mesh is up");
  app->add_option("--timeout", options->timeout, "Longest wait until the mesh is up: 30s, 5m")
      ->capture_default_str();
  app->add_option("-o,--output", options->output,
                  "table; yaml with --dry-run, where it is the default; json for programs")
      ->check(CLI::IsMember({"table", "yaml", "json"}))
      ->capture_default_str();
  app->callback([&flags, options] { flags.exit_code = run_install(*options); });
}

}  // namespace osm::cli
