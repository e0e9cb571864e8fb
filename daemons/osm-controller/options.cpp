#include "options.hpp"

#include <arpa/inet.h>

#include <CLI/CLI.hpp>
#include <string>

#include "daemons/version.hpp"

namespace osm::controller {
namespace {

// Result: the fault, empty if there is none.
std::string check_ip(const std::string& text) {
  in6_addr parsed{};
  const bool valid = text.empty() || ::inet_pton(AF_INET, text.c_str(), &parsed) == 1 ||
                     ::inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
  return valid ? "" : "'" + text + "' is not an IP address";
}

}  // namespace

int parse_options(int argc, char** argv, Options& options) {
  CLI::App app{
      "osm-controller: configures the proxies of a service mesh from a directory of SMI "
      "policies, or from a Kubernetes cluster"};
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n"
      "  osm-controller --mesh-dir /etc/osm/mesh --state-dir /var/lib/osm \\\n"
      "      --ads-address 0.0.0.0:15128 --http-address 127.0.0.1:9091\n"
      "  osm-controller --in-cluster --state-dir /run/osm/state --http-address 0.0.0.0:9091\n"
      "  osm-controller --mesh-dir /etc/osm/mesh --audit-log /var/log/osm-certificates.json\n"
      "  osm-controller --kubeconfig ~/.kube/config --state-dir ./state\n"
      "It writes JSON log lines to stderr and ends on SIGTERM or SIGINT.\n"
      "`osm --help` shows how to inspect a running controller.");
  app.set_version_flag("--version", std::string("osm-controller ") + kVersionText);
  CLI::Option_group* const source = app.add_option_group("Source of the mesh (one of)");
  source->require_option(1);
  source->add_option("--mesh-dir", options.mesh_dir,
                     "Directory of the mesh's YAML: services, accounts, VirtualMachines, SMI "
                     "policies; watched for changes");
  source->add_option("--kubeconfig", options.kubeconfig,
                     "kubeconfig of a Kubernetes API server; its current context is used");
  source->add_flag("--in-cluster", options.in_cluster,
                   "Use the Kubernetes cluster of this pod, with the pod's ServiceAccount");
  app.add_flag("--reconcile-only", options.reconcile_only,
               "Serve no proxies: only create and restore the mesh's CRDs and webhook "
               "configurations (Kubernetes only; deploy/kubernetes-reconciler has the account)");
  app.add_flag("--secrets-by-namespace", options.secrets_by_namespace,
               "Read Secrets in the mesh's namespaces only, with a RoleBinding in each (Kubernetes "
               "only; deploy/kubernetes-secret-roles)");
  app.add_flag("--beside-osm-v1", options.beside_osm_v1,
               "OSM v1.2 serves the same mesh: accept its workloads by the DNS names in their "
               "certificates, and review only policies of namespaces labelled "
               "openservicemesh.io/ignore=moved (Kubernetes only; docs/migrate-from-osm.md)");
  // Not Option::excludes(): --help would list the two in the order of their addresses.
  app.callback([&options] {
    if (options.mesh_dir.empty()) return;
    if (options.reconcile_only) throw CLI::ExcludesError("--reconcile-only", "--mesh-dir");
    if (options.beside_osm_v1) throw CLI::ExcludesError("--beside-osm-v1", "--mesh-dir");
    if (options.secrets_by_namespace)
      throw CLI::ExcludesError("--secrets-by-namespace", "--mesh-dir");
  });
  app.add_option("--state-dir", options.state_dir,
                 "Directory for the CA, the record of root rotations and the admin socket; one "
                 "controller at a time, and no other user may write to it")
      ->envname("OSM_STATE_DIR");
  daemon::add_address(app, "--ads-address", options.ads_address, "0.0.0.0:15128",
                      "HOST:PORT for proxies: xDS over mutual TLS");
  app.add_option("--ads-memory", options.ads_memory_mb,
                 "Limit in MB for proxies' connections; beyond it, streams are cancelled")
      ->check(CLI::Range(16, 1 << 20));
  app.add_option("--ads-max-connections", options.ads_connections.connections,
                 "Bound of connections from proxies; 0: the process's limit of descriptors, less "
                 "some for everything else");
  app.add_option("--ads-max-unverified", options.ads_connections.unverified,
                 "Bound of connections that have not shown a certificate of the mesh yet")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--ads-max-unverified-per-address", options.ads_connections.unverified_per_address,
                 "The same for one address; 0: none, for proxies behind a load balancer");
  app.add_option("--ads-max-accepts", options.ads_connections.accepts_per_second,
                 "Bound of new connections a second")
      ->check(CLI::Range(1, 1 << 20));
  daemon::add_http_address(app, options);
  daemon::add_address(app, "--validator-address", options.validator_address, "0.0.0.0:9093",
                      "HOST:PORT for the API server: the validating webhook (Kubernetes only)");
  daemon::add_shutdown_delay(app, options, " (Kubernetes only)");
  daemon::add_mesh_options(app, options, "Namespace of the MeshConfig object");
  auto recall = options.proxy_recall_interval.count();
  app.add_option("--proxy-recall-interval", recall,
                 "Seconds between the reconnections by which proxies show their newer certificates "
                 "while a root is replaced")
      ->check(CLI::Range(1, 3600));
  auto wait = options.rotation_max_wait.count();
  app.add_option(
         "--rotation-max-wait", wait,
         "Seconds that a step of a root rotation waits for a few proxies that are silent or "
         "not connected: ten, or one in a hundred")
      ->check(CLI::Range(1, 30 * 24 * 3600));
  app.add_option("--replica-address", options.replica_address.host,
                 "IP address at which other replicas reach this one's --http-address, to learn if "
                 "it is stale: $(POD_IP); empty: they do not ask it (Kubernetes only)")
      ->check(CLI::Validator(check_ip, ""));
  auto stale = options.stale_after.count();
  app.add_option("--stale-after", stale,
                 "Seconds without an answer of the API server after which this replica is stale: "
                 "not ready, and no new proxies, while another replica is not (Kubernetes only)")
      ->check(CLI::Range(15, 3600));
  daemon::add_log_options(app, options);
  const int code = daemon::parse(app, argc, argv);
  options.proxy_recall_interval = std::chrono::seconds(recall);
  options.stale_after = std::chrono::seconds(stale);
  options.rotation_max_wait = std::chrono::seconds(wait);
  return code;
}

}  // namespace osm::controller
