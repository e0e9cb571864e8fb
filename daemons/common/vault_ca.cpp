#include "vault_ca.hpp"

#include <utility>

#include "daemon.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::daemon {
namespace {

// The token of a pod's ServiceAccount, which the kubelet renews.
constexpr const char* kServiceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token";

// An issuer with the threads that look after its token: when Vault is away they wait, and nobody
// else does.
struct VaultCa {
  net::Threads threads{2};
  std::unique_ptr<certificate::Issuer> issuer;
};

// Reads Secrets of the mesh's own namespace only, so that a declared root cannot reach other
// Secrets.
Result<vault::Source> token_in_secret(const LoadCaOptions& with, const VaultProvider& described) {
  if (!with.cluster)
    return Error{ErrorCode::kInvalidArgument,
                 "Vault: token.secretKeyRef: the mesh is not on Kubernetes; use tokenFile"};
  if (described.token_secret_namespace != with.options.osm_namespace)
    return Error{ErrorCode::kInvalidArgument,
                 "Vault: token.secretKeyRef.namespace: only a Secret of " +
                     with.options.osm_namespace + " is read; put the token there"};
  return vault::Source([cluster = with.cluster, described] {
    return kubernetes::read_secret(*cluster, described.token_secret_namespace,
                                   described.token_secret_name, described.token_secret_key);
  });
}

}  // namespace

Result<std::shared_ptr<certificate::Issuer>> make_vault_ca(const LoadCaOptions& with,
                                                           const VaultProvider& described,
                                                           vault::Source ca_pem) {
  const auto ca = std::make_shared<VaultCa>();
  vault::IssuerOptions options{
      .address = {described.host, number(described.port), ""},
      .tls = described.protocol != "http",
      .ca_pem = std::move(ca_pem),
      .vault_namespace = described.vault_namespace,
      .mount = described.mount,
      .role = described.role,
      .io = with.runtime.asio(),
      .runtime = with_executors(with.runtime, with.runtime.executor, ca->threads.executor())};
  if (!described.token_file.empty()) options.token = vault::from_file(described.token_file);
  if (!described.token_secret_name.empty()) {
    OSM_TRY(options.token, token_in_secret(with, described));
  }
  if (!described.auth_role.empty())
    options.kubernetes = vault::KubernetesLogin{.mount = described.auth_mount,
                                                .role = described.auth_role,
                                                .jwt = vault::from_file(kServiceAccountToken)};
  OSM_TRY(ca->issuer, vault::make_vault_issuer(options));
  return std::shared_ptr<certificate::Issuer>(ca, ca->issuer.get());
}

}  // namespace osm::daemon
