// The flags of both daemons, and their checks.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/net/address.hpp"
#include "osm/values/mesh_root_certificate.hpp"

namespace osm::daemon {

inline constexpr int kUsage = 2;  // the exit code of wrong usage

// The CA that signs for the mesh, and the store of its key.
struct CaOptions {
  std::string certificate_manager = "tresor";  // or "cert-manager", "vault"
  // Store of the tresor CA: "directory", "kubernetes" or "etcd"; empty: the same as the mesh's.
  std::string ca_store;
  std::string ca_secret = "osm-ca-bundle";
  std::string ca_cert_file;  // an operator's CA for an empty store, with its key; both or neither
  std::string ca_key_file;

  std::vector<std::string> etcd_endpoints;
  std::string etcd_key = "/osm/ca";
  std::string etcd_ca_file;
  std::string etcd_cert_file;
  std::string etcd_key_file;
  std::string etcd_user;
  std::string etcd_password_file;

  CertManagerProvider cert_manager{.issuer_name = "osm-ca"};
  std::string cert_manager_ca_file;

  VaultProvider vault{.role = "openservicemesh"};
  std::string vault_ca_file;
  // For MeshRootCertificates: the hosts that they may name, and the directory of their token files.
  std::vector<std::string> vault_allowed_hosts;
  std::string vault_token_dir;
};

struct MeshOptions {
  net::Address http_address;
  CaOptions ca;
  std::string osm_namespace = "osm-system";
  std::string mesh_name = "osm";
  TrustDomain trust_domain{"cluster.local"};
  std::string cluster_domain = "cluster.local";
  bool beside_osm_v1 = false;
  LogLevel log_level = LogLevel::kInfo;
  // The webhooks still answer for so long after SIGTERM. Nothing without webhooks.
  std::chrono::seconds shutdown_delay{5};
  std::string audit_log;  // a file, or "-" for stdout; empty: none
};

// `app` and the values are used until parse() returns; `app` captures defaults.

// HOST:PORT; `preset` without the flag.
void add_address(CLI::App& app, const std::string& flag, net::Address& address,
                 const std::string& preset, const std::string& text);
void add_http_address(CLI::App& app, MeshOptions& options);
// The CA, the namespace, the mesh's name, its trust domain and the domain of the cluster's DNS.
void add_mesh_options(CLI::App& app, MeshOptions& options, const std::string& namespace_text);
// The time that webhooks go on after SIGTERM.
void add_shutdown_delay(CLI::App& app, MeshOptions& options, const std::string& note = "");
// The log's level and the audit log.
void add_log_options(CLI::App& app, MeshOptions& options);

// Accepts values that `valid` accepts; else the error is "'x' is not <what>".
CLI::Validator names(bool (*valid)(std::string_view), const char* what);

// Result: the exit code to leave with when there is nothing to run (--help, wrong usage; what is to
// be said has been printed), else -1.
int parse(CLI::App& app, int argc, char** argv);

}  // namespace osm::daemon
