// MeshRootCertificate (config.openservicemesh.io/v1alpha2): one CA of the mesh. Where there is
// none, the controller's own flags say which CA signs. docs/certificates.md shows a rotation.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// spec.role: what its author wants of it. How far that has come is the rotation's (ADR 0024).
enum class RootRole {
  kActive,    // it signs, and its certificates are trusted
  kPassive,   // its certificates are trusted
  kInactive,  // neither
};

// spec.provider.tresor: our own CA, its key in a Secret or, on machines, in a directory of the
// state directory; created when there is none.
struct TresorProvider {
  std::string secret_name{};
  std::string secret_namespace{};

  friend bool operator==(const TresorProvider&, const TresorProvider&) = default;
};

// spec.provider.vault: a PKI secrets engine.
struct VaultProvider {
  std::string host{};
  Port port{8200};
  std::string protocol = "https";  // "http" is refused but for loopback
  std::string mount = "pki";       // where the engine is mounted
  std::string role{};
  std::string vault_namespace{};  // X-Vault-Namespace; empty: none
  // The token: a key of a Secret, or a file on machines. Empty: Kubernetes auth as `auth_role`.
  std::string token_secret_name{};
  std::string token_secret_namespace{};
  std::string token_secret_key{};
  std::string token_file{};
  std::string auth_mount = "kubernetes";
  std::string auth_role{};
  std::string ca_pem{};  // that the server's certificate is verified with; empty: the system's

  friend bool operator==(const VaultProvider&, const VaultProvider&) = default;
};

// spec.provider.certManager: an Issuer or a ClusterIssuer.
struct CertManagerProvider {
  std::string issuer_name{};
  std::string issuer_kind = "Issuer";
  std::string issuer_group = "cert-manager.io";

  friend bool operator==(const CertManagerProvider&, const CertManagerProvider&) = default;
};

struct MeshRootCertificate {
  std::string name;                           // in the control plane's namespace
  TrustDomain trust_domain{"cluster.local"};  // empty: the one that the mesh has
  RootRole role = RootRole::kActive;
  std::variant<TresorProvider, VaultProvider, CertManagerProvider> provider{};
  std::int64_t generation = 0;

  friend bool operator==(const MeshRootCertificate&, const MeshRootCertificate&) = default;
};

}  // namespace osm::inline v1
