#include "root_rotation/root_rules.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

namespace osm::inline v1::root_rotation {
namespace {

Error refused(const std::string& why) { return {ErrorCode::kPermissionDenied, "Vault: " + why}; }

Status check_token_file(const RootRules& rules, const std::string& token_file) {
  if (!rules.secrets_of.empty())
    return refused("tokenFile is for machines; use token.secretKeyRef or auth on Kubernetes");
  if (rules.token_files_in.empty())
    return refused("tokenFile " + token_file +
                   " is not allowed; start the controller with --vault-token-dir and the directory "
                   "of such files");
  std::error_code fault;
  const auto directory = std::filesystem::canonical(rules.token_files_in, fault);
  if (fault) return refused("--vault-token-dir " + rules.token_files_in + ": " + fault.message());
  const auto file = std::filesystem::canonical(token_file, fault);
  if (fault) return refused("tokenFile " + token_file + ": " + fault.message());
  if (file.parent_path() != directory)
    return refused("tokenFile " + token_file + " is not in --vault-token-dir " +
                   rules.token_files_in);
  return {};
}

Status check_token_secret(const RootRules& rules, const VaultProvider& vault) {
  if (rules.secrets_of.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "Vault: token.secretKeyRef: the mesh is not on Kubernetes; use tokenFile"};
  if (vault.token_secret_namespace != rules.secrets_of)
    return Error{ErrorCode::kInvalidArgument,
                 "Vault: token.secretKeyRef.namespace: only a Secret of " + rules.secrets_of +
                     " is read; put the token there"};
  return {};
}

Status check_vault(const RootRules& rules, const VaultProvider& vault) {
  if (std::ranges::find(rules.vault_hosts, vault.host) == rules.vault_hosts.end())
    return refused("host " + vault.host +
                   " is not allowed; if it is yours, start the mesh's daemons with "
                   "--vault-allowed-host " +
                   vault.host);
  if (!vault.token_file.empty()) {
    OSM_TRY(check_token_file(rules, vault.token_file));
  }
  return vault.token_secret_name.empty() ? Status() : check_token_secret(rules, vault);
}

}  // namespace

Result<MeshRootCertificate> check_root(const RootRules& rules, MeshRootCertificate root) {
  if (const auto* vault = std::get_if<VaultProvider>(&root.provider)) {
    OSM_TRY(check_vault(rules, *vault));
  } else if (auto* tresor = std::get_if<TresorProvider>(&root.provider)) {
    if (rules.secrets_of.empty()) {
      *tresor = {};
    } else if (tresor->secret_namespace.empty()) {
      tresor->secret_namespace = rules.secrets_of;
    } else if (tresor->secret_namespace != rules.secrets_of) {
      // Whoever reads Secrets of another namespace would have the CA's key.
      return Error{ErrorCode::kPermissionDenied,
                   "tresor.ca.secretRef.namespace: a CA's key is kept in " + rules.secrets_of +
                       " only; name a Secret there"};
    }
  }
  return root;
}

}  // namespace osm::inline v1::root_rotation
