// The CA that signs for the mesh and the store of its key: flags of every daemon that issues.
#pragma once

#include <string>
#include <vector>

#include "osm/values/mesh_root_certificate.hpp"

namespace CLI {
class App;
}

namespace osm::daemon {

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
};

// `app` and `options` are used until the command line was parsed.
void add_ca_options(CLI::App& app, CaOptions& options);

}  // namespace osm::daemon
