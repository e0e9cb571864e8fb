#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "base/read_file.hpp"
#include "daemons/version.hpp"
#include "osm/ids.hpp"

namespace osm::injector {
namespace {

void add_limits(CLI::App& app, inject::InjectionLimits& limits) {
  const auto bound = [&app](const char* flag, std::size_t& value, const char* text) {
    app.add_option(flag, value, text)->check(CLI::Range(1, 1 << 20));
  };
  bound("--max-injections-per-second", limits.per_second,
        "Bound of injections in all; five seconds' worth may come at once; beyond it, pods are "
        "refused with status 429, and their creator tries again");
  bound("--max-injections-per-second-per-namespace", limits.per_second_per_namespace,
        "The same in one namespace");
  bound("--max-waiting-secrets", limits.waiting_secrets,
        "Bound of bootstrap Secrets whose pod has not come; beyond it, pods are refused");
  bound("--max-waiting-secrets-per-namespace", limits.waiting_secrets_per_namespace,
        "The same in one namespace");
}

void add_mesh_options(CLI::App& app, Options& options, std::string& client_ca_file) {
  CLI::Option_group* const cluster = app.add_option_group("Cluster (one of)");
  cluster->require_option(1);
  cluster->add_option("--kubeconfig", options.kubeconfig,
                      "kubeconfig of the API server; its current context is used");
  cluster->add_flag("--in-cluster", options.in_cluster,
                    "Use the cluster of this pod, with the pod's ServiceAccount");
  daemon::add_address(app, "--listen", options.listen, "0.0.0.0:9090",
                      "HOST:PORT for the API server: /mutate-pod-creation");
  app.add_option("--client-ca-file", client_ca_file,
                 "PEM file: CA of the client certificate that the webhook requires; the API server "
                 "shows one if its admission configuration names it");
  add_limits(app, options.limits);
  daemon::add_shutdown_delay(app, options);
  daemon::add_http_address(app, options);
  daemon::add_mesh_options(app, options,
                           "Namespace of the control plane and of the MeshConfig object");
  app.add_flag("--beside-osm-v1", options.beside_osm_v1,
               "OSM v1.2 serves the same mesh: inject only pods of namespaces labelled "
               "openservicemesh.io/ignore=moved (docs/migrate-from-osm.md)");
}

void add_sidecar_options(CLI::App& app, Options& options) {
  app.add_option("--envoy-image", options.envoy_image,
                 "Image of the sidecar, unless MeshConfig has spec.sidecar.envoyImage");
  app.add_option("--init-container-image", options.init_container_image,
                 "Image of osm-init (needs /bin/sh and iptables-restore), unless MeshConfig has "
                 "spec.sidecar.initContainerImage");
  app.add_option("--image-pull-policy", options.image_pull_policy, "Pull policy of both images")
      ->check(CLI::IsMember({"Always", "IfNotPresent", "Never"}));
  app.add_flag("--cni", options.cni,
               "The CNI plugin osm-cni of each node redirects the traffic of pods, whose init "
               "container then has no rights, as PodSecurity `restricted` asks");
  app.add_option_function<std::string>(
         "--native-sidecars",
         [&options](const std::string& text) {
           if (text != "auto") options.native_sidecars = text == "on";
         },
         "Run Envoy as an init container that starts first and ends last, which needs Kubernetes "
         "1.29 on every node; `auto` follows the versions of the API server and the nodes' "
         "kubelets; a pod's annotation openservicemesh.io/native-sidecar takes precedence")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->default_str("auto");
  app.add_option_function<std::string>(
         "--xds", [&options](const std::string& text) { options.xds = *xds_variant_of(text); },
         "Variant of xDS of new sidecars: delta (only changed resources), or sotw (state of the "
         "world: all clusters or all listeners each time)")
      ->check(CLI::IsMember({"delta", "sotw"}))
      ->default_str("delta");
  daemon::add_log_options(app, options);
}

}  // namespace

std::string grant_command(const Options& options, const std::string& ns) {
  return fmt::format(
      "kubectl create rolebinding {0} -n {1} --clusterrole={0} --serviceaccount={2}:osm-injector",
      "osm-injector-secrets-" + options.mesh_name, ns, options.osm_namespace);
}

int parse_options(int argc, char** argv, Options& options) {
  std::string client_ca_file;
  CLI::App app{"osm-injector: gives the pods of a service mesh their sidecars"};
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n"
      "  osm-injector --in-cluster --http-address 0.0.0.0:9091 --audit-log -\n"
      "  osm-injector --kubeconfig ~/.kube/config --envoy-image envoy:v1.40.0\n"
      "It keeps its webhook libosm-webhook-<mesh name> in the API server as it must be. It writes "
      "JSON\n"
      "log lines to stderr and ends on SIGTERM or SIGINT.");
  app.set_version_flag("--version", std::string("osm-injector ") + kVersionText);
  add_mesh_options(app, options, client_ca_file);
  add_sidecar_options(app, options);
  if (const int code = daemon::parse(app, argc, argv); code >= 0) return code;
  if (client_ca_file.empty()) return -1;
  options.client_ca_pem = read_file(client_ca_file, 1024 * 1024).value_or("");
  if (!options.client_ca_pem.empty()) return -1;
  std::cerr << "--client-ca-file: " << client_ca_file << " is empty or cannot be read\n";
  return daemon::kUsage;
}

}  // namespace osm::injector
