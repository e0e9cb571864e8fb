#include "options.hpp"

#include <arpa/inet.h>

#include <CLI/CLI.hpp>
#include <string>

#include "daemons/version.hpp"
#include "osm/host/stale_replica.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::controller {
namespace {

// All: Result: the fault, empty if there is none.

std::string check_prefix(const std::string& text) {
  const bool valid = text.size() > 1 && text.front() == '/' && text.back() != '/';
  return valid ? "" : "'" + text + "' is no prefix of keys; write one such as /osm";
}

std::string check_ip(const std::string& text) {
  in6_addr parsed{};
  const bool valid = text.empty() || ::inet_pton(AF_INET, text.c_str(), &parsed) == 1 ||
                     ::inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
  return valid ? "" : "'" + text + "' is not an IP address";
}

std::string check_service_cidr(const std::string& text) {
  const Status checked = text.empty() ? Status() : spec::check_service_network(text);
  return checked.ok() ? "" : checked.error().message;
}

// Result: the fault, empty if there is none.
std::string check_address(const std::string& text) {
  const Result<net::Address> parsed = text.empty() ? net::Address() : net::parse_address(text);
  return parsed.ok() ? "" : parsed.error().message;
}

}  // namespace

int parse_options(int argc, char** argv, Options& options) {
  CLI::App app{
      "osm-controller: configures the proxies of a service mesh from a directory of SMI "
      "policies, from etcd, or from a Kubernetes cluster"};
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n"
      "  osm-controller --mesh-dir /etc/osm/mesh --state-dir /var/lib/osm \\\n"
      "      --ads-address 0.0.0.0:15128 --http-address 127.0.0.1:9091\n"
      "  osm-controller --in-cluster --state-dir /run/osm/state --http-address 0.0.0.0:9091\n"
      "  osm-controller --mesh-dir /etc/osm/mesh --audit-log /var/log/osm-certificates.json\n"
      "  osm-controller --kubeconfig ~/.kube/config --state-dir ./state\n"
      "  osm-controller --mesh-etcd /osm --etcd-endpoints "
      "https://10.0.0.1:2379,https://10.0.0.2:2379 "
      "\\\n"
      "      --state-dir /run/osm\n"
      "It writes JSON log lines to stderr and ends on SIGTERM or SIGINT.\n"
      "`osm --help` shows how to inspect a running controller.");
  app.set_version_flag("--version", std::string("osm-controller ") + kVersionText);
  CLI::Option_group* const source = app.add_option_group("Source of the mesh (one of)");
  source->require_option(1);
  source->add_option("--mesh-dir", options.mesh_dir,
                     "Directory of the mesh's YAML: services, accounts, VirtualMachines, SMI "
                     "policies; watched for changes");
  source
      ->add_option("--mesh-etcd", options.mesh_etcd,
                   "Prefix of the mesh's keys in etcd, such as /osm; with --etcd-endpoints. "
                   "`osm apply` writes the objects, and any number of controllers read them")
      ->check(CLI::Validator(check_prefix, ""));
  source->add_option("--kubeconfig", options.kubeconfig,
                     "kubeconfig of a Kubernetes API server; its current context is used");
  source->add_flag("--in-cluster", options.in_cluster,
                   "Use the Kubernetes cluster of this pod, with the pod's ServiceAccount");
  app.add_option("--cluster-name", options.cluster_name,
                 "Name of the Kubernetes cluster, a DNS label: its endpoints provider is "
                 "kubernetes-NAME (without a name: kubernetes)")
      ->check(daemon::names(
          [](std::string_view name) { return is_dns_label(name) && name.size() <= 52; },
          "a DNS label of at most 52 bytes"));
  app.add_option("--service-cidr", options.service_cidr,
                 "IPv4 network that nobody routes, such as 240.240.0.0/12: a Service without "
                 "spec.clusterIP gets an address of it. The same at all controllers of a mesh "
                 "(--mesh-dir and --mesh-etcd)")
      ->check(CLI::Validator(check_service_cidr, ""));
  app.add_option("--remote-clusters", options.remote_clusters,
                 "Directory of kubeconfigs, each in a file with a cluster's name: pods of these "
                 "clusters serve the mesh's Services, too; read at the start");
  app.add_option("--providers", options.providers,
                 "YAML file of endpoints providers in processes of their own, which are asked over "
                 "gRPC (docs/provider-guide.md); read at the start");
  app.add_flag("--reconcile-only", options.reconcile_only,
               "Serve no proxies: only create and restore the mesh's CRDs and webhook "
               "configurations (Kubernetes only; `osm install --set osm.enableReconciler=true`)");
  app.add_flag("--secrets-by-namespace", options.secrets_by_namespace,
               "Read Secrets in the mesh's namespaces only, with a RoleBinding in each (Kubernetes "
               "only; `osm install --set osm.secretsByNamespace=true`)");
  app.add_flag("--beside-osm-v1", options.beside_osm_v1,
               "OSM v1.2 serves the same mesh: accept its workloads by the DNS names in their "
               "certificates, and review only policies of namespaces labelled "
               "openservicemesh.io/ignore=moved (Kubernetes only; docs/migrate-from-osm.md)");
  // Not Option::excludes(): --help would list the two in the order of their addresses.
  app.callback([&options] {
    if (options.on_kubernetes()) {
      if (!options.service_cidr.empty())
        throw CLI::ValidationError(
            "--service-cidr",
            "Kubernetes allocates the addresses of its Services: leave it out, "
            "or use --mesh-dir or --mesh-etcd");
      return;
    }
    const char* const given = options.mesh_etcd.empty() ? "--mesh-dir" : "--mesh-etcd";
    if (options.reconcile_only) throw CLI::ExcludesError("--reconcile-only", given);
    if (options.beside_osm_v1) throw CLI::ExcludesError("--beside-osm-v1", given);
    if (options.secrets_by_namespace) throw CLI::ExcludesError("--secrets-by-namespace", given);
    if (options.mesh_etcd.empty()) return;
    if (options.ca.etcd_endpoints.empty())
      throw CLI::RequiredError("--mesh-etcd: --etcd-endpoints");
    // The other controllers could not read a CA on this machine.
    if (options.ca.ca_store.empty()) options.ca.ca_store = "etcd";
    if (options.ca.ca_store != "etcd")
      throw CLI::ExcludesError("--ca-store " + options.ca.ca_store, given);
  });
  app.add_option("--state-dir", options.state_dir,
                 "Directory for the CA, the record of root rotations and the admin socket; one "
                 "controller at a time, and no other user may write to it")
      ->envname("OSM_STATE_DIR");
  daemon::add_address(app, "--ads-address", options.ads_address, "0.0.0.0:15128",
                      "HOST:PORT for proxies: xDS over mutual TLS");
  app.add_option("--join-address", options.join_address,
                 "HOST:PORT for machines that join the mesh by a token of `osm vm token`: HTTPS; "
                 "empty: none can")
      ->check(CLI::Validator(check_address, ""));
  app.add_option("--ads-memory", options.ads_memory_mb,
                 "Limit in MB for proxies' connections; beyond it, streams are cancelled")
      ->check(CLI::Range(16, 1 << 20));
  app.add_option("--ads-max-connections", options.ads_connections.connections,
                 "Bound of connections from proxies; 0: the process's limit of descriptors, less "
                 "those for its other ports");
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
  daemon::add_address(app, "--remote-admin-address", options.remote_admin_address, "0.0.0.0:9094",
                      "HOST:PORT for the API server: the admin API, for callers with a token of "
                      "ServiceAccount osm-viewer or osm-admin (Kubernetes only)");
  daemon::add_shutdown_delay(app, options, " (Kubernetes only)");
  daemon::add_mesh_options(app, options, "Namespace of the MeshConfig object");
  auto recall = options.proxy_recall_interval.count();
  app.add_option("--proxy-recall-interval", recall,
                 "Seconds between the reconnections by which proxies show their newer certificates "
                 "while a root is replaced, and from the last new Secret to the first of them")
      ->check(CLI::Range(1, 3600));
  auto wait = options.rotation_max_wait.count();
  app.add_option(
         "--rotation-max-wait", wait,
         "Seconds that a step of a root rotation waits for a few proxies that are silent or "
         "not connected: ten, or one in a hundred")
      ->check(CLI::Range(1, 30 * 24 * 3600));
  app.add_option("--replica-address", options.replica_address.host,
                 "IP address at which other replicas reach this one's --http-address, to learn if "
                 "it is stale: $(POD_IP); empty: they do not ask it (Kubernetes and --mesh-etcd)")
      ->check(CLI::Validator(check_ip, ""));
  auto stale = options.stale_after.count();
  app.add_option("--stale-after", stale,
                 "Seconds without an answer of the API server or etcd after which this replica is "
                 "stale: not ready, and no new proxies, while another replica is not (Kubernetes "
                 "and --mesh-etcd)")
      ->check(CLI::Range(static_cast<int>(host::StaleReplicaGuard::kLeast.count()), 3600));
  app.add_flag("--rebalance", options.rebalance,
               "With many more proxies than other replicas, end some of their streams, a few at a "
               "time, so that they connect to another replica");
  app.add_option("--azure-config", options.azure_config,
                 "YAML file that says how AzureResources are resolved: the identity, and Azure's "
                 "servers (docs/azure.md)");
  app.add_option(
      "--dns-server", options.dns_servers,
      "IP address of a name server for DNSResources, with its port if that is not 53; may "
      "be repeated (default: the system's)");
  daemon::add_log_options(app, options);
  const int code = daemon::parse(app, argc, argv);
  options.proxy_recall_interval = std::chrono::seconds(recall);
  options.stale_after = std::chrono::seconds(stale);
  options.rotation_max_wait = std::chrono::seconds(wait);
  return code;
}

}  // namespace osm::controller
