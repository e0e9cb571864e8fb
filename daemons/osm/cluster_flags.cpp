#include "cluster_flags.hpp"

#include <filesystem>
#include <map>

#include "process.hpp"

namespace osm::cli {
namespace {

std::string variable(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

// --kubeconfig, else $KUBECONFIG, else ~/.kube/config. Empty: none, so this is a pod.
std::string kubeconfig_of(const ClusterFlags& flags,
                          const std::map<std::string, std::string>& environment) {
  if (!flags.kubeconfig.empty()) return flags.kubeconfig;
  const std::string named = variable(environment, "KUBECONFIG");
  if (!named.empty()) return named;
  const std::string usual = variable(environment, "HOME") + "/.kube/config";
  const bool in_pod = !variable(environment, "KUBERNETES_SERVICE_HOST").empty();
  return in_pod && !std::filesystem::exists(usual) ? std::string() : usual;
}

}  // namespace

Result<std::unique_ptr<kubernetes::Cluster>> connect(const ClusterFlags& flags,
                                                     OwnRuntime& runtime) {
  const auto environment = daemon::environment();
  return kubernetes::connect({.kubeconfig = kubeconfig_of(flags, environment),
                              .context = flags.context,
                              .environment = environment,
                              .io = runtime.asio(),
                              .runtime = runtime});
}

bool names_cluster(const ClusterFlags& flags) {
  return !flags.kubeconfig.empty() || !flags.context.empty();
}

bool finds_cluster(const ClusterFlags& flags) {
  const std::string file = kubeconfig_of(flags, daemon::environment());
  return file.empty() || std::filesystem::exists(file);
}

void add_cluster(CLI::App& app, ClusterFlags& flags) {
  app.add_option("--kubeconfig", flags.kubeconfig,
                 "kubeconfig of the cluster (default: $KUBECONFIG, else ~/.kube/config)");
  app.add_option("--context", flags.context,
                 "Context of the kubeconfig (default: its current one)");
}

}  // namespace osm::cli
