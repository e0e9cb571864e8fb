#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "daemons/version.hpp"
#include "model/names.hpp"

namespace osm::controller {
namespace {

constexpr int kUsage = 2;

// CLI11's way of saying no: the text of what is wrong, empty when nothing is.
std::string check_address(const std::string& text) {
  const auto address = net::parse_address(text);
  if (!address.ok()) return address.error().message;
  return address->is_unix() ? "a Unix socket is not supported here; write HOST:PORT" : "";
}

CLI::Validator names(bool (*valid)(std::string_view), const char* what) {
  return CLI::Validator(
      [valid, what](std::string& text) {
        return valid(text) ? std::string() : "'" + text + "' is not " + what;
      },
      "");
}

}  // namespace

int parse_options(int argc, char** argv, Options& options) {
  std::string ads = "0.0.0.0:15128";
  std::string http = "127.0.0.1:9091";
  std::string trust_domain = "cluster.local";
  std::string level = "info";
  const std::vector<std::string> levels{"debug", "info", "warning", "error"};  // as in LogLevel
  options.state_dir = "/var/lib/osm";
  options.osm_namespace = "osm-system";
  options.mesh_name = "osm";

  CLI::App app{
      "osm-controller: configures the proxies of a service mesh from a directory of SMI "
      "policies"};
  app.footer(
      "Example:\n"
      "  osm-controller --mesh-dir /etc/osm/mesh --state-dir /var/lib/osm \\\n"
      "      --ads-address 0.0.0.0:15128 --http-address 127.0.0.1:9091\n"
      "It writes JSON log lines to stderr and ends on SIGTERM or SIGINT.\n"
      "`osm --help` shows how to look into a running controller.");
  app.set_version_flag("--version", std::string(kVersion) + " (" + kCommit + ")");
  app.add_option("--mesh-dir", options.mesh_dir,
                 "Directory of the mesh's YAML: services, accounts, VirtualMachines, SMI policies; "
                 "watched for changes")
      ->required();
  app.add_option("--state-dir", options.state_dir,
                 "Where the CA and the admin socket are kept; one controller at a time")
      ->envname("OSM_STATE_DIR")
      ->capture_default_str();
  app.add_option("--ads-address", ads, "HOST:PORT for proxies: xDS over mutual TLS")
      ->check(CLI::Validator([](std::string& text) { return check_address(text); }, ""))
      ->capture_default_str();
  app.add_option("--http-address", http,
                 "HOST:PORT for plain HTTP: /health/ready, /health/alive, /metrics, /version")
      ->check(CLI::Validator([](std::string& text) { return check_address(text); }, ""))
      ->capture_default_str();
  app.add_option("--osm-namespace", options.osm_namespace, "Namespace of the MeshConfig object")
      ->check(names(model::is_dns_label, "a namespace name (lower case, digits, '-')"))
      ->capture_default_str();
  app.add_option("--mesh-name", options.mesh_name,
                 "Value of the label openservicemesh.io/monitored-by on the mesh's namespaces")
      ->check(names(model::is_dns_label, "a mesh name (lower case, digits, '-')"))
      ->capture_default_str();
  app.add_option("--trust-domain", trust_domain, "SPIFFE trust domain of every identity")
      ->check(names(model::is_dns_subdomain, "a trust domain (such as cluster.local)"))
      ->capture_default_str();
  app.add_option("-v,--log-level", level, "Least level to log")
      ->check(CLI::IsMember(levels))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  options.ads_address = *net::parse_address(ads);
  options.http_address = *net::parse_address(http);
  options.trust_domain = TrustDomain(trust_domain);
  const auto named = std::find(levels.begin(), levels.end(), level);
  options.log_level = static_cast<LogLevel>(named - levels.begin());
  return -1;
}

}  // namespace osm::controller
