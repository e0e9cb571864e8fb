#include "vault_ca.hpp"

#include <string>
#include <utility>

#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::daemon {
namespace {

// The token of a pod's ServiceAccount, which the kubelet renews.
constexpr const char* kServiceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token";

// An issuer with the threads that look after its token: when Vault is away they wait, and nobody
// else does.
class WithThreads final : public certificate::Issuer {
 public:
  Status start(vault::IssuerOptions options) {
    OSM_TRY(issuer_, vault::make_vault_issuer(options));
    return {};
  }
  Executor& executor() { return threads_.executor(); }

  Result<std::string> sign(const certificate::SigningRequest& request) override {
    return issuer_->sign(request);
  }
  std::string trust_bundle_pem() const override { return issuer_->trust_bundle_pem(); }
  std::string id() const override { return issuer_->id(); }
  WallTime not_after() const override { return issuer_->not_after(); }
  Status health() const override { return issuer_->health(); }
  Subscription subscribe(std::function<void()> on_change) override {
    return issuer_->subscribe(std::move(on_change));
  }

 private:
  net::Threads threads_{2};
  std::unique_ptr<certificate::Issuer> issuer_;
};

// Reads Secrets of the mesh's own namespace only, so that a declared root cannot reach other
// Secrets.
Result<vault::Source> token_in_secret(const LoadCaOptions& with, const VaultProvider& described) {
  if (!with.cluster)
    return Error{ErrorCode::kInvalidArgument,
                 "Vault: token.secretKeyRef: the mesh is not on Kubernetes; use tokenFile"};
  if (described.token_secret_namespace != with.osm_namespace)
    return Error{ErrorCode::kInvalidArgument,
                 "Vault: token.secretKeyRef.namespace: only a Secret of " + with.osm_namespace +
                     " is read; put the token there"};
  return vault::Source([cluster = with.cluster, described] {
    return kubernetes::read_secret(*cluster, described.token_secret_namespace,
                                   described.token_secret_name, described.token_secret_key);
  });
}

}  // namespace

Result<std::unique_ptr<certificate::Issuer>> make_vault_ca(const LoadCaOptions& with,
                                                           const VaultProvider& described,
                                                           vault::Source ca_pem) {
  auto issuer = std::make_unique<WithThreads>();
  vault::IssuerOptions options{
      .address = {described.host, number(described.port), ""},
      .tls = described.protocol != "http",
      .ca_pem = std::move(ca_pem),
      .vault_namespace = described.vault_namespace,
      .mount = described.mount,
      .role = described.role,
      .io = with.io,
      .runtime = {with.runtime.executor, issuer->executor(), with.runtime.clock, with.runtime.rng,
                  with.runtime.log, with.runtime.metrics}};
  if (!described.token_file.empty()) options.token = vault::from_file(described.token_file);
  if (!described.token_secret_name.empty()) {
    OSM_TRY(options.token, token_in_secret(with, described));
  }
  if (!described.auth_role.empty())
    options.kubernetes = vault::KubernetesLogin{.mount = described.auth_mount,
                                                .role = described.auth_role,
                                                .jwt = vault::from_file(kServiceAccountToken)};
  OSM_TRY(issuer->start(std::move(options)));
  return std::unique_ptr<certificate::Issuer>(std::move(issuer));
}

}  // namespace osm::daemon
