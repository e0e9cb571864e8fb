// MeshRootCertificate (config.openservicemesh.io/v1alpha2): one CA of the mesh. Without such
// objects the controller's flags say which CA signs. docs/certificates.md shows a root rotation.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// spec.role: the target state. The root rotation decides how far it has come (ADR 0024).
enum class RootRole {
  kActive,    // it signs, and its certificates are trusted
  kPassive,   // its certificates are trusted
  kInactive,  // neither
};

// spec.provider.tresor: the mesh's own CA. Its key is in a Secret or, on machines, in a directory
// of the state directory; the control plane creates it if it is missing.
struct TresorProvider {
  std::string secret_name{};
  std::string secret_namespace{};

  friend bool operator==(const TresorProvider&, const TresorProvider&) = default;
};

// spec.provider.vault: a PKI secrets engine.
struct VaultProvider {
  std::string host{};
  Port port{8200};
  std::string protocol = "https";  // "http" is accepted for loopback only
  std::string mount = "pki";       // path of the engine's mount
  std::string role{};
  std::string vault_namespace{};  // X-Vault-Namespace; empty: none
  // The token: a key of a Secret, or a file on machines. Empty: Kubernetes auth as `auth_role`.
  std::string token_secret_name{};
  std::string token_secret_namespace{};
  std::string token_secret_key{};
  std::string token_file{};
  std::string auth_mount = "kubernetes";
  std::string auth_role{};
  std::string ca_pem{};  // verifies the server's certificate; empty: the system's roots

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
  TrustDomain trust_domain{"cluster.local"};  // empty: the mesh's own
  RootRole role = RootRole::kActive;
  std::variant<TresorProvider, VaultProvider, CertManagerProvider> provider{};
  // SHA-256 of the CA's root certificates (DER, 64 lower-case hex digits each). A root of Vault or
  // cert-manager is trusted only if it is listed; an empty list admits any root of Tresor.
  std::vector<std::string> root_fingerprints{};
  std::int64_t generation = 0;

  friend bool operator==(const MeshRootCertificate&, const MeshRootCertificate&) = default;
};

}  // namespace osm::inline v1
