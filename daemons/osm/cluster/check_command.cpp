// `osm check`: faults of a cluster and of its mesh, with remedies.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "cluster/commands.hpp"
#include "cluster/findings.hpp"
#include "cluster_flags.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::cli {
namespace {

struct CheckFlags {
  std::string mesh_name = "osm";
  bool before = false;
  bool strict = false;
};

void append(Findings& findings, Findings more) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

Result<Findings> check_cluster(const Flags& flags, const CheckFlags& options) {
  OwnRuntime runtime({.least = LogLevel::kError});
  OSM_TRY(const auto cluster, connect(flags.mesh.cluster, runtime));
  const kubernetes::CheckOptions mesh{flags.mesh.osm_namespace, options.mesh_name};
  if (options.before) return kubernetes::check_before_install(*cluster, mesh);
  OSM_TRY(Findings findings, kubernetes::check_installation(*cluster, mesh));
  OSM_TRY(Findings controllers, kubernetes::check_controllers(*cluster, mesh));
  append(findings, std::move(controllers));
  const auto connected = check_mesh(flags.client(), findings);
  if (!connected.ok()) {
    // A cluster's controllers that do not answer are a fault of the cluster.
    findings.push_back({Verdict::kFault, "Controllers", connected.error().message,
                        "look at their logs: kubectl logs -l app=osm-controller"});
  } else if (*connected) {
    OSM_TRY(Findings sidecars,
            kubernetes::check_sidecars(*cluster, mesh, **connected, runtime.clock.wall_now()));
    append(findings, std::move(sidecars));
  }
  return findings;
}

int run_check(const Flags& flags, const CheckFlags& options) {
  if (options.before || !flags.client().is_local()) {
    const auto findings = check_cluster(flags, options);
    return findings.ok() ? print_findings(flags, *findings, options.strict)
                         : fail(flags, findings.error());
  }
  Findings findings;
  const auto asked = check_mesh(flags.client(), findings);
  return asked.ok() ? print_findings(flags, findings, options.strict) : fail(flags, asked.error());
}

}  // namespace

void add_check(CLI::App& root, Flags& flags) {
  auto options = std::make_shared<CheckFlags>();
  CLI::App* app =
      command(root, flags, "check", "Faults of the cluster and of the mesh, each with its remedy",
              "osm check --pre         (before `osm install`)\n"
              "  osm check\n"
              "  osm check --strict -o json");
  add_strict(*app, options->strict);
  app->add_flag("--pre", options->before,
                "Check that the mesh can be installed: version, permissions, other meshes");
  app->add_option("--mesh-name", options->mesh_name, "Name of the mesh")->capture_default_str();
  app->callback([&flags, options] { flags.exit_code = run_check(flags, *options); });
}

}  // namespace osm::cli
