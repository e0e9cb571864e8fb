#include "mesh_options.hpp"

#include <algorithm>
#include <vector>

#include "base/host_name.hpp"

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

// A host in the form in which objects have it.
CLI::Validator one_form() {
  return {[](std::string& text) -> std::string {
            auto name = host_name_of(text);
            if (!name)
              return '\'' + text +
                     "' must be a host name or an IP address, without scheme, port and brackets";
            text = *std::move(name);
            return "";
          },
          ""};
}

void add_etcd_options(CLI::App& app, CaOptions& options) {
  const auto group = app.add_option_group("etcd (as the store of the CA or the mesh)");
  group
      ->add_option("--etcd-endpoints", options.etcd_endpoints,
                   "https://HOST:2379 of each member, separated by commas; tried in turn")
      ->delimiter(',')
      ->default_str("");
  group->add_option(
      "--etcd-key", options.etcd_key,
      "Key that holds the CA; later roots and what controllers share are in keys below it");
  group->add_option("--etcd-ca-file", options.etcd_ca_file,
                    "PEM file: roots to verify etcd's certificate; default: the system's");
  group->add_option("--etcd-cert-file", options.etcd_cert_file,
                    "PEM file: client certificate for etcd");
  group->add_option("--etcd-key-file", options.etcd_key_file, "PEM file: its private key");
  group->add_option("--etcd-user", options.etcd_user,
                    "User of etcd, with read and write access to the CA's and the mesh's keys");
  group->add_option("--etcd-password-file", options.etcd_password_file,
                    "File with that user's password");
}

void add_cert_manager_options(CLI::App& app, CaOptions& options) {
  const auto group = app.add_option_group("cert-manager (--certificate-manager cert-manager)");
  group
      ->add_option("--cert-manager-issuer-name", options.cert_manager.issuer_name,
                   "The issuer that signs")
      ->check(names(is_dns_subdomain, "an issuer's name"));
  group->add_option("--cert-manager-issuer-kind", options.cert_manager.issuer_kind,
                    "Issuer (in --osm-namespace), ClusterIssuer, or an external issuer's kind");
  group
      ->add_option("--cert-manager-issuer-group", options.cert_manager.issuer_group,
                   "API group of that kind")
      ->check(names(is_dns_subdomain, "an API group"));
  group->add_option("--cert-manager-ca-file", options.cert_manager_ca_file,
                    "PEM file: root of the issuer; default: from the issuer's answers");
}

void add_vault_options(CLI::App& app, CaOptions& options) {
  VaultProvider& vault = options.vault;
  const auto group = app.add_option_group("Vault (--certificate-manager vault)");
  group->add_option("--vault-host", vault.host, "Host of Vault: a DNS name or an IP address")
      ->transform(one_form());
  group->add_option("--vault-port", vault.port, "Its port")->type_name("PORT");
  group->add_option("--vault-protocol", vault.protocol, "https; or http, to this machine only")
      ->check(CLI::IsMember({"https", "http"}));
  group->add_option("--vault-mount", vault.mount, "Mount of the PKI secrets engine");
  group->add_option("--vault-role", vault.role, "Role of the engine that signs");
  group->add_option("--vault-token-file", vault.token_file,
                    "File with a token; read again when it changes");
  group->add_option(
      "--vault-auth-role", vault.auth_role,
      "Instead of a token: role of Vault's Kubernetes auth for this pod's ServiceAccount");
  group->add_option("--vault-auth-mount", vault.auth_mount, "Mount of that auth method");
  group->add_option("--vault-ca-file", options.vault_ca_file,
                    "PEM file: roots to verify Vault's certificate; default: the system's");
  group->add_option("--vault-namespace", vault.vault_namespace, "A namespace of Vault Enterprise");
  const auto roots = app.add_option_group("Vault of a MeshRootCertificate");
  roots
      ->add_option("--vault-allowed-host", options.vault_allowed_hosts,
                   "Host that the object may name, beside --vault-host; may be repeated")
      ->transform(one_form());
  roots->add_option("--vault-token-dir", options.vault_token_dir,
                    "Directory of the token files that the object may name (machines only)");
}

void add_ca_options(CLI::App& app, CaOptions& options) {
  app.add_option("--certificate-manager", options.certificate_manager,
                 "CA that signs: tresor (the mesh's own), vault, or cert-manager (Kubernetes only)")
      ->check(CLI::IsMember({"tresor", "vault", "cert-manager"}));
  app.add_option(
         "--ca-store", options.ca_store,
         "Store of the mesh's own CA, which the first daemon makes: directory (--state-dir), "
         "kubernetes (a Secret) or etcd; default: the kind of store that the mesh has")
      ->check(CLI::IsMember({"directory", "kubernetes", "etcd"}));
  app.add_option("--ca-bundle-secret-name", options.ca_secret,
                 "Secret in --osm-namespace that holds the CA (Kubernetes only)")
      ->check(names(is_dns_subdomain, "a Secret's name"));
  auto* cert = app.add_option("--ca-cert", options.ca_cert_file,
                              "PEM file: a CA to import into an empty --ca-store: its certificate, "
                              "then those above it, the root last");
  auto* key = app.add_option("--ca-key", options.ca_key_file, "PEM file: that CA's private key");
  cert->needs(key);
  key->needs(cert);
  add_etcd_options(app, options);
  add_cert_manager_options(app, options);
  add_vault_options(app, options);
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
      ->check(names(is_dns_name, "a trust domain (such as cluster.local)"))
      ->default_str(options.trust_domain.str());
  app.add_option("--cluster-domain", options.cluster_domain,
                 "Domain of the cluster's DNS: Services are called by "
                 "NAME.NAMESPACE.svc.<domain>, and sidecars of pods find the controller by it")
      ->check(names(is_dns_name, "a DNS name (such as cluster.local)"));
}

void add_shutdown_delay(CLI::App& app, MeshOptions& options, const std::string& note) {
  app.add_option_function<int>(
         "--shutdown-delay",
         [&options](int seconds) { options.shutdown_delay = std::chrono::seconds(seconds); },
         "Seconds for which the webhook still answers after SIGTERM, until the API server asks "
         "other replicas" +
             note)
      ->check(CLI::Range(0, 60))
      ->default_str(std::to_string(options.shutdown_delay.count()));
}

void add_log_options(CLI::App& app, MeshOptions& options) {
  app.add_option_function<std::string>(
         "-v,--log-level",
         [&options](const std::string& text) {
           const auto at = std::find(kLogLevels.begin(), kLogLevels.end(), text);
           options.log_level = static_cast<LogLevel>(at - kLogLevels.begin());
         },
         "Lowest level to log")
      ->check(CLI::IsMember(kLogLevels))
      ->default_str(kLogLevels[static_cast<std::size_t>(options.log_level)]);
  app.add_option("--audit-log", options.audit_log,
                 "Record of every issued certificate: a FILE (mode 0600, appended to, opened again "
                 "when it was moved away) or - for stdout; one JSON line each");
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
