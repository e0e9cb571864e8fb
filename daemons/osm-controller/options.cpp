#include "options.hpp"

#include <CLI/CLI.hpp>
#include <string>

#include "daemons/version.hpp"
#include "option_checks.hpp"

namespace osm::controller {
int parse_options(int argc, char** argv, Options& options) {
  std::string ads = "0.0.0.0:15128";
  std::string http = "127.0.0.1:9091";
  std::string validator = "0.0.0.0:9093";
  std::string trust_domain = "cluster.local";
  std::string level = "info";
  auto recall = options.proxy_recall_interval.count();
  options.state_dir = "/var/lib/osm";
  options.osm_namespace = "osm-system";
  options.mesh_name = "osm";

  CLI::App app{
      "osm-controller: configures the proxies of a service mesh from a directory of SMI "
      "policies, or from a Kubernetes cluster"};
  app.footer(
      "Examples:\n"
      "  osm-controller --mesh-dir /etc/osm/mesh --state-dir /var/lib/osm \\\n"
      "      --ads-address 0.0.0.0:15128 --http-address 127.0.0.1:9091\n"
      "  osm-controller --in-cluster --state-dir /run/osm --http-address 0.0.0.0:9091\n"
      "  osm-controller --kubeconfig ~/.kube/config --state-dir ./state\n"
      "It writes JSON log lines to stderr and ends on SIGTERM or SIGINT.\n"
      "`osm --help` shows how to inspect a running controller.");
  app.set_version_flag("--version", std::string(kVersion) + " (" + kCommit + ")");
  CLI::Option_group* const source = app.add_option_group("Source of the mesh (one of)");
  source->require_option(1);
  source->add_option("--mesh-dir", options.mesh_dir,
                     "Directory of the mesh's YAML: services, accounts, VirtualMachines, SMI "
                     "policies; watched for changes");
  source->add_option("--kubeconfig", options.kubeconfig,
                     "kubeconfig of a Kubernetes API server; its current context is used");
  source->add_flag("--in-cluster", options.in_cluster,
                   "Use the Kubernetes cluster of this pod, with the pod's ServiceAccount");
  app.add_option("--state-dir", options.state_dir,
                 "Directory for the CA, the record of root rotations and the admin socket; one "
                 "controller at a time")
      ->envname("OSM_STATE_DIR")
      ->capture_default_str();
  app.add_option("--ads-address", ads, "HOST:PORT for proxies: xDS over mutual TLS")
      ->check(daemon::tcp_address())
      ->capture_default_str();
  app.add_option("--ads-memory", options.ads_memory_mb,
                 "Limit in MB for proxies' connections; beyond it, streams are cancelled")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  app.add_option("--http-address", http,
                 "HOST:PORT for plain HTTP: /health/ready, /health/alive, /metrics, /version")
      ->check(daemon::tcp_address())
      ->capture_default_str();
  app.add_option("--validator-address", validator,
                 "HOST:PORT for the API server: the validating webhook (Kubernetes only)")
      ->check(daemon::tcp_address())
      ->capture_default_str();
  daemon::add_ca_options(app, options.ca);
  app.add_option("--osm-namespace", options.osm_namespace, "Namespace of the MeshConfig object")
      ->check(daemon::names(is_dns_label, "a namespace name (lower case, digits, '-')"))
      ->capture_default_str();
  app.add_option("--mesh-name", options.mesh_name,
                 "Value of the label openservicemesh.io/monitored-by on the mesh's namespaces")
      ->check(daemon::names(is_dns_label, "a mesh name (lower case, digits, '-')"))
      ->capture_default_str();
  app.add_option("--trust-domain", trust_domain, "SPIFFE trust domain of every identity")
      ->check(daemon::names(is_dns_subdomain, "a trust domain (such as cluster.local)"))
      ->capture_default_str();
  app.add_option("--proxy-recall-interval", recall,
                 "Seconds between the reconnections by which proxies show their newer certificates "
                 "while a root is replaced")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("-v,--log-level", level, "Lowest level to log")
      ->check(CLI::IsMember(daemon::log_levels()))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : daemon::kUsage;
  }
  options.ads_address = *net::parse_address(ads);
  options.http_address = *net::parse_address(http);
  options.validator_address = *net::parse_address(validator);
  options.trust_domain = TrustDomain(trust_domain);
  options.proxy_recall_interval = std::chrono::seconds(recall);
  options.log_level = daemon::log_level_of(level);
  return -1;
}

}  // namespace osm::controller
