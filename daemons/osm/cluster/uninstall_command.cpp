// `osm uninstall`: removes what `osm install` made.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "cluster/commands.hpp"
#include "cluster_flags.hpp"
#include "osm/kubernetes/install.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

struct UninstallFlags {
  kubernetes::UninstallOptions mesh;
  ClusterFlags cluster;
  bool force = false;
};

// Asks a person; nobody else can answer.
bool confirmed(const UninstallFlags& flags) {
  if (flags.force) return true;
  std::cerr << fmt::format(
      "This deletes the mesh {0} with its CA{1}{3}. Pods with a sidecar keep it until they are "
      "restarted, and cannot renew their certificates.\nUninstall {0} from namespace {2}? [y/N] ",
      flags.mesh.mesh_name,
      flags.mesh.delete_crds ? ", and every policy of every mesh in the cluster" : "",
      flags.mesh.osm_namespace,
      flags.mesh.keep_namespace
          ? ""
          : fmt::format(", and namespace {} with everything in it if `osm install` made it",
                        flags.mesh.osm_namespace));
  std::string answer;
  return ::isatty(STDIN_FILENO) != 0 && std::getline(std::cin, answer) &&
         (answer == "y" || answer == "yes");
}

int run_uninstall(const Flags& common, UninstallFlags& flags) {
  if (common.for_programs() && !flags.force)
    return fail(common,
                {ErrorCode::kInvalidArgument, "-o " + common.output + " asks nobody: add --force"});
  if (!confirmed(flags)) {
    std::cerr << "\nosm: nothing is deleted; --force does not ask\n";
    return kFailed;
  }
  OwnRuntime runtime({.least = LogLevel::kError});
  const auto cluster = connect(flags.cluster, runtime);
  if (!cluster.ok()) return fail(common, cluster.error());
  json::array deleted;
  flags.mesh.on_removed = [&](const std::string& object) {
    if (!common.for_programs()) std::cout << "deleted   " << object << '\n' << std::flush;
    deleted.emplace_back(object);
  };
  const auto removed = kubernetes::uninstall(**cluster, flags.mesh);
  if (!removed.ok()) {
    const int code = fail(common, removed.error());
    return removed.error().code == ErrorCode::kDeadlineExceeded ? kNotYet : code;
  }
  if (common.for_programs())
    std::cout << common.written({{"mesh", flags.mesh.mesh_name},
                                 {"namespace", flags.mesh.osm_namespace},
                                 {"deleted", std::move(deleted)}});
  else
    std::cout << fmt::format("OSM [mesh name: {}] in namespace [{}] uninstalled\n",
                             flags.mesh.mesh_name, flags.mesh.osm_namespace);
  return std::cout.flush() ? kDone : kFailed;
}

}  // namespace

void add_uninstall(CLI::App& root, Flags& flags) {
  auto options = std::make_shared<UninstallFlags>();
  CLI::App* app = root.add_subcommand(
      "uninstall", "Remove the mesh that `osm install` has installed on a Kubernetes cluster");
  app->footer(
      "Example:\n"
      "  osm uninstall\n"
      "  osm uninstall --mesh-name blue --osm-namespace blue-system --force\n"
      "Policies stay. Take namespaces out of the mesh and restart their pods before: "
      "`osm namespace remove`.");
  app->add_option("--osm-namespace", options->mesh.osm_namespace, "Namespace of the control plane")
      ->capture_default_str();
  app->add_option("--mesh-name", options->mesh.mesh_name, "Name of the mesh")
      ->capture_default_str();
  app->add_flag("--delete-crds", options->mesh.delete_crds,
                "Delete the CRDs too, and with them every policy of every mesh in the cluster");
  app->add_flag(
      "--keep-namespace", options->mesh.keep_namespace,
      "Keep the namespace; else it is deleted with all its content if `osm install` made it");
  app->add_flag("-f,--force", options->force, "Do not ask");
  add_cluster(*app, options->cluster);
  add_output(*app, flags);
  add_time(*app, "--timeout", options->mesh.timeout, "Longest wait for the daemons to end");
  app->callback([&flags, options] { flags.exit_code = run_uninstall(flags, *options); });
}

}  // namespace osm::cli
