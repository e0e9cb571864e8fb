// `osm install` and `osm upgrade`: the control plane on a Kubernetes cluster.
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
#include "cluster/commands.hpp"
#include "cluster_flags.hpp"
#include "daemons/version.hpp"
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
  std::string mesh_name;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  bool dry_run = false, no_wait = false, force = false, show_values = false, reset_values = false;
};

Result<std::vector<kubernetes::Manifest>> render(InstallOptions& options) {
  for (const std::string& path : options.files) {
    OSM_TRY(std::string text, read_file(path, kMaxValuesBytes));
    options.chart.values_files.push_back({path, std::move(text)});
  }
  return kubernetes::render_chart(options.chart);
}

int print_manifests(const std::vector<kubernetes::Manifest>& manifests, const Flags& flags) {
  const bool as_json = flags.output == "json";
  json::array items;
  for (const kubernetes::Manifest& manifest : manifests) {
    if (as_json)
      items.push_back(json::parse(manifest.json));
    else
      std::cout << "---\n# Source: " << manifest.source << '\n' << manifest.yaml;
  }
  if (as_json)
    std::cout << flags.written({{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}});
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
  if (change == kubernetes::Change::kKept) return "kept";
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
      return Error{ErrorCode::kNotReady,
                   "the objects are applied, but the mesh is not up in time: " + now +
                       ". Look at `kubectl get pods,events` of its namespace"};
    if (now != told) std::cerr << "waiting: " << printable(now) << '\n';
    told = now;
    std::this_thread::sleep_for(kPoll);
  }
}

// Applies the objects, deletes what they replace, and waits. Result: the objects and their changes.
Result<json::array> apply(const Flags& flags, const InstallOptions& options,
                          kubernetes::Cluster& cluster,
                          const std::vector<kubernetes::Manifest>& manifests) {
  OSM_TRY(kubernetes::check_no_other_mesh(cluster, manifests));
  json::array applied;
  const auto report = [&](const std::string& object, const char* change) {
    if (flags.output == "table")
      std::cout << fmt::format("{:<10}{}\n", change, object) << std::flush;
    applied.push_back(json::object{{"object", object}, {"change", change}});
  };
  const auto prune = [&](kubernetes::PrunedKinds kinds) -> Status {
    OSM_TRY(const auto removed, kubernetes::prune(cluster, manifests, kinds));
    for (const std::string& object : removed) report(object, "deleted");
    return {};
  };
  OSM_TRY(prune(kubernetes::PrunedKinds::kAutoscalers));
  for (const kubernetes::Manifest& manifest : manifests) {
    const auto done = kubernetes::apply_manifest(cluster, manifest, options.force);
    if (!done.ok()) {
      Error error = done.error();
      if (error.code == ErrorCode::kConflict)
        error.message += "; --force-conflicts takes the field over from that manager";
      return error;
    }
    report(done->object, word_of(done->change));
  }
  if (!options.no_wait) OSM_TRY(wait_until_up(cluster, manifests, options.timeout));
  OSM_TRY(prune(kubernetes::PrunedKinds::kOthers));
  return applied;
}

int print_next_steps(const Flags& flags, const InstallOptions& options,
                     const std::string& mesh_name, const json::array& applied) {
  const std::string& ns = options.chart.osm_namespace;
  if (flags.for_programs()) {
    std::cout << flags.written({{"namespace", ns}, {"objects", applied}});
  } else {
    std::cout << fmt::format(
        "OSM {} in namespace {}.\n"
        "Next: let a namespace join the mesh, and restart its pods:\n"
        "  osm namespace add <name> --mesh-name {}\n"
        "  kubectl rollout restart deployment -n <name>\n",
        options.no_wait ? "is applied" : "is up", ns, mesh_name);
  }
  return std::cout.flush() ? kDone : kFailed;
}

// The cluster says which optional kinds it has, unless the flag did.
Status learn_kinds(InstallOptions& options, kubernetes::Cluster& cluster) {
  if (!options.chart.api_versions.empty()) return {};
  OSM_TRY(options.chart.api_versions, kubernetes::served_kinds(cluster));
  return {};
}

int run_install(const Flags& flags, InstallOptions& options) {
  if (options.show_values) {
    std::cout << kubernetes::chart_values();
    return std::cout.flush() ? kDone : kFailed;
  }
  if (!options.mesh_name.empty())
    options.chart.settings.push_back("osm.meshName=" + options.mesh_name);
  auto manifests = render(options);
  if (!manifests.ok()) return fail(flags, manifests.error()), kUsage;
  if (options.dry_run) return print_manifests(*manifests, flags);
  OwnRuntime runtime({.least = LogLevel::kError});
  const auto cluster = connect(options.cluster, runtime);
  if (!cluster.ok()) return fail(flags, cluster.error());
  if (const Status learned = learn_kinds(options, **cluster); !learned.ok())
    return fail(flags, learned.error());
  manifests = kubernetes::render_chart(options.chart);
  if (!manifests.ok()) return fail(flags, manifests.error()), kUsage;
  const auto applied = apply(flags, options, **cluster, *manifests);
  if (!applied.ok()) return fail(flags, applied.error());
  return print_next_steps(flags, options, mesh_name_of(*manifests), *applied);
}

// The objects with the values of the installed mesh, and what the operator changes of them.
Result<std::vector<kubernetes::Manifest>> render_again(InstallOptions& options,
                                                       const kubernetes::Installation& present) {
  if (options.reset_values)
    options.chart.settings.insert(options.chart.settings.begin(),
                                  "osm.meshName=" + present.mesh_name);
  else
    options.chart.values_files.push_back(present.values);
  auto manifests = render(options);
  if (manifests.ok() || options.reset_values) return manifests;
  Error error = manifests.error();
  error.message += "; the values of the installed mesh are in " + present.values.name +
                   ", and --reset-values leaves them out";
  return error;
}

int run_upgrade(const Flags& flags, InstallOptions& options) {
  OwnRuntime runtime({.least = LogLevel::kError});
  const auto cluster = connect(options.cluster, runtime);
  if (!cluster.ok()) return fail(flags, cluster.error());
  const std::string& ns = options.chart.osm_namespace;
  const auto present = kubernetes::find_installation(**cluster, ns);
  if (!present.ok()) return fail(flags, present.error());
  if (const Status learned = learn_kinds(options, **cluster); !learned.ok())
    return fail(flags, learned.error());
  const auto manifests = render_again(options, *present);
  if (!manifests.ok()) return fail(flags, manifests.error()), kUsage;
  if (options.dry_run) return print_manifests(*manifests, flags);
  const std::string mesh = mesh_name_of(*manifests);
  if (flags.output == "table")
    std::cout << fmt::format("mesh {} in namespace {}: version {} to {}\n", mesh, ns,
                             present->version, kVersion);
  const auto applied = apply(flags, options, **cluster, *manifests);
  if (!applied.ok()) return fail(flags, applied.error());
  if (flags.for_programs())
    std::cout << flags.written(
        {{"namespace", ns}, {"from", present->version}, {"to", kVersion}, {"objects", *applied}});
  else
    std::cout << fmt::format("OSM successfully upgraded mesh {} in namespace {}\n", mesh, ns);
  return std::cout.flush() ? kDone : kFailed;
}

// The flags that `install` and `upgrade` have in common.
void add_chart_flags(CLI::App& app, Flags& flags, InstallOptions& options) {
  app.add_option("--osm-namespace", options.chart.osm_namespace, "Namespace of the control plane")
      ->capture_default_str();
  app.add_option("-f,--values", options.files,
                 "YAML file with values; may be repeated, the last wins");
  app.add_option(
         "--set", options.chart.settings,
         "PATH=VALUE of one value, or several with commas; may be repeated, and wins over files")
      ->allow_extra_args(false);
  app.add_flag("--dry-run", options.dry_run, "Print the objects, and change nothing");
  app.add_option(
         "--api-versions", options.chart.api_versions,
         "GROUP/VERSION/KIND of an optional kind that the cluster has, as for `helm template`\n"
         "(default: the cluster is asked; with --dry-run of `install`: none)")
      ->allow_extra_args(false);
  add_cluster(app, options.cluster);
  app.add_flag(
      "--force-conflicts", options.force,
      "Take over fields that another manager, such as kubectl or helm, has set differently");
  app.add_flag("--no-wait", options.no_wait, "Do not wait until the mesh is up");
  add_time(app, "--timeout", options.timeout, "Longest wait until the mesh is up");
  app.add_option("-o,--output", flags.output,
                 "table, or json or yaml for programs; with --dry-run yaml is the default")
      ->check(CLI::IsMember({"table", "yaml", "json"}))
      ->capture_default_str();
}

}  // namespace

void add_install(CLI::App& root, Flags& flags) {
  auto options = std::make_shared<InstallOptions>();
  CLI::App* app = root.add_subcommand(
      "install", "Install the mesh on a Kubernetes cluster, or apply all its values anew");
  app->footer(
      "Example:\n"
      "  osm install --show-values > values.yaml\n"
      "  osm install -f values.yaml --set osm.image.registry=registry.example.com/mesh\n"
      "  osm install -f values.yaml --set osm.osmController.autoScale.enable=true\n"
      "  osm install --dry-run > mesh.yaml      (for GitOps; `kubectl apply --server-side -f`)\n"
      "Values are those of charts/osm. A second run changes only what differs. It sets values that "
      "it is not given to their defaults; `osm upgrade` keeps them.");
  add_chart_flags(*app, flags, *options);
  app->add_option("--mesh-name", options->mesh_name, "Short for --set osm.meshName=NAME");
  app->add_flag("--show-values", options->show_values,
                "Print all values with their defaults, and end");
  app->callback([&flags, options] { flags.exit_code = run_install(flags, *options); });
}

void add_upgrade(CLI::App& root, Flags& flags) {
  auto options = std::make_shared<InstallOptions>();
  CLI::App* app = root.add_subcommand(
      "upgrade", "Bring an installed mesh to the version of this command, or change some values");
  app->footer(
      "Example:\n"
      "  osm upgrade\n"
      "  osm upgrade --set osm.injector.replicaCount=3\n"
      "  osm upgrade --reset-values -f values.yaml\n"
      "Values of the installed mesh stay if they are not given. To roll back, run `osm upgrade` of "
      "the older version. CRDs of a newer version stay.");
  add_chart_flags(*app, flags, *options);
  app->add_flag("--reset-values", options->reset_values,
                "Begin with the defaults, not with the values of the installed mesh");
  app->callback([&flags, options] { flags.exit_code = run_upgrade(flags, *options); });
}

}  // namespace osm::cli
