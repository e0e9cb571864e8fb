#include "options.hpp"

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "daemons/version.hpp"
#include "option_checks.hpp"

namespace osm::injector {
namespace {

struct Texts {
  std::string listen = "0.0.0.0:9090";
  std::string client_ca_file;
  std::string http = "127.0.0.1:9091";
  std::string trust_domain = "cluster.local";
  std::string native = "auto";
  std::string level = "info";
};

void add_mesh_options(CLI::App& app, Options& options, Texts& texts) {
  CLI::Option_group* const cluster = app.add_option_group("Cluster (one of)");
  cluster->require_option(1);
  cluster->add_option("--kubeconfig", options.kubeconfig,
                      "kubeconfig of the API server; its current context is used");
  cluster->add_flag("--in-cluster", options.in_cluster,
                    "Use the cluster of this pod, with the pod's ServiceAccount");
  app.add_option("--listen", texts.listen, "HOST:PORT for the API server: /mutate-pod-creation")
      ->check(daemon::tcp_address())
      ->capture_default_str();
  app.add_option("--client-ca-file", texts.client_ca_file,
                 "PEM file: CA of the client certificate that the webhook requires; the API server "
                 "shows one if its admission configuration names it");
  app.add_option("--http-address", texts.http,
                 "HOST:PORT for plain HTTP: /health/ready, /health/alive, /metrics, /version")
      ->check(daemon::tcp_address())
      ->capture_default_str();
  daemon::add_ca_options(app, options.ca);
  app.add_option("--osm-namespace", options.osm_namespace,
                 "Namespace of the control plane and of the MeshConfig object")
      ->check(daemon::names(is_dns_label, "a namespace name (lower case, digits, '-')"))
      ->capture_default_str();
  app.add_option("--mesh-name", options.mesh_name,
                 "Value of the label openservicemesh.io/monitored-by on the mesh's namespaces")
      ->check(daemon::names(is_dns_label, "a mesh name (lower case, digits, '-')"))
      ->capture_default_str();
  app.add_option("--trust-domain", texts.trust_domain, "SPIFFE trust domain of every identity")
      ->check(daemon::names(is_dns_subdomain, "a trust domain (such as cluster.local)"))
      ->capture_default_str();
}

void add_sidecar_options(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("--envoy-image", options.envoy_image,
                 "Image of the sidecar, unless MeshConfig has spec.sidecar.envoyImage")
      ->capture_default_str();
  app.add_option("--init-container-image", options.init_container_image,
                 "Image of osm-init (needs /bin/sh and iptables-restore), unless MeshConfig has "
                 "spec.sidecar.initContainerImage")
      ->capture_default_str();
  app.add_option("--image-pull-policy", options.image_pull_policy, "Pull policy of both images")
      ->check(CLI::IsMember({"Always", "IfNotPresent", "Never"}))
      ->capture_default_str();
  app.add_option("--native-sidecars", texts.native,
                 "Run Envoy as an init container that starts first and ends last: needs Kubernetes "
                 "1.29; `auto` checks the version at the start")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app.add_option("-v,--log-level", texts.level, "Lowest level to log")
      ->check(CLI::IsMember(daemon::log_levels()))
      ->capture_default_str();
}

}  // namespace

int parse_options(int argc, char** argv, Options& options) {
  Texts texts;
  options.osm_namespace = "osm-system";
  options.mesh_name = "osm";
  options.envoy_image = "envoyproxy/envoy-distroless:v1.40.0";
  options.init_container_image = "openservicemesh/init:v1.2.4";
  options.image_pull_policy = "IfNotPresent";

  CLI::App app{"osm-injector: gives the pods of a service mesh their sidecars"};
  app.footer(
      "Examples:\n"
      "  osm-injector --in-cluster --http-address 0.0.0.0:9091\n"
      "  osm-injector --kubeconfig ~/.kube/config --envoy-image envoy:v1.40.0\n"
      "It keeps its webhook osm-webhook-<mesh name> in the API server. It writes JSON log lines "
      "to\n"
      "stderr and ends on SIGTERM or SIGINT.");
  app.set_version_flag("--version", std::string(kVersion) + " (" + kCommit + ")");
  add_mesh_options(app, options, texts);
  add_sidecar_options(app, options, texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : daemon::kUsage;
  }
  options.listen = *net::parse_address(texts.listen);
  if (!texts.client_ca_file.empty()) {
    std::ifstream file(texts.client_ca_file);
    options.client_ca_pem.assign(std::istreambuf_iterator<char>(file), {});
    if (options.client_ca_pem.empty()) {
      std::cerr << "--client-ca-file: " << texts.client_ca_file << " is empty or cannot be read\n";
      return daemon::kUsage;
    }
  }
  options.http_address = *net::parse_address(texts.http);
  options.trust_domain = TrustDomain(texts.trust_domain);
  if (texts.native != "auto") options.native_sidecars = texts.native == "on";
  options.log_level = daemon::log_level_of(texts.level);
  return -1;
}

}  // namespace osm::injector
