#include "mesh_options.hpp"

#include <algorithm>
#include <vector>

namespace osm::daemon {
namespace {

// In the order of LogLevel.
const std::vector<std::string> kLogLevels{"debug", "info", "warning", "error"};

// Result: the fault, empty if there is none.
std::string check_tcp_address(const std::string& text) {
  const auto address = net::parse_address(text);
  if (!address.ok()) return address.error().message;
  return address->is_unix() ? "a Unix socket is not supported here; write HOST:PORT" : "";
}

}  // namespace

CLI::Validator names(bool (*valid)(std::string_view), const char* what) {
  return CLI::Validator(
      [valid, what](std::string& text) {
        return valid(text) ? std::string() : "'" + text + "' is not " + what;
      },
      "");
}

void add_address(CLI::App& app, const std::string& flag, net::Address& address,
                 const std::string& preset, const std::string& text) {
  const auto set = [&address](const std::string& given) { address = *net::parse_address(given); };
  set(preset);
  app.add_option_function<std::string>(flag, set, text)
      ->check(CLI::Validator(check_tcp_address, ""))
      ->default_str(preset);
}

void add_http_address(CLI::App& app, MeshOptions& options) {
  add_address(app, "--http-address", options.http_address, "127.0.0.1:9091",
              "HOST:PORT for plain HTTP: /health/ready, /health/alive, /metrics, /version");
}

void add_mesh_options(CLI::App& app, MeshOptions& options, const std::string& namespace_text) {
  add_ca_options(app, options.ca);
  app.add_option("--osm-namespace", options.osm_namespace, namespace_text)
      ->check(names(is_dns_label, "a namespace name (lower case, digits, '-')"));
  app.add_option("--mesh-name", options.mesh_name,
                 "Value of the label openservicemesh.io/monitored-by on the mesh's namespaces")
      ->check(names(is_dns_label, "a mesh name (lower case, digits, '-')"));
  app.add_option_function<std::string>(
         "--trust-domain",
         [&options](const std::string& text) { options.trust_domain = TrustDomain(text); },
         "SPIFFE trust domain of every identity")
      ->check(names(is_dns_subdomain, "a trust domain (such as cluster.local)"))
      ->default_str(options.trust_domain.str());
}

void add_log_level(CLI::App& app, MeshOptions& options) {
  app.add_option_function<std::string>(
         "-v,--log-level",
         [&options](const std::string& text) {
           const auto at = std::find(kLogLevels.begin(), kLogLevels.end(), text);
           options.log_level = static_cast<LogLevel>(at - kLogLevels.begin());
         },
         "Lowest level to log")
      ->check(CLI::IsMember(kLogLevels))
      ->default_str(kLogLevels[static_cast<std::size_t>(options.log_level)]);
}

int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return -1;
}

}  // namespace osm::daemon
