#include "ca.hpp"

#include <string>
#include <utility>

#include "base/read_file.hpp"
#include "daemon.hpp"
#include "osm/certificate/ca_store.hpp"
#include "osm/certificate/cert_manager.hpp"
#include "osm/certificate/vault.hpp"
#include "osm/host/health.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/values/mesh_root_certificate.hpp"

namespace osm::daemon {
namespace {

using IssuerPtr = std::shared_ptr<certificate::Issuer>;

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// The store that the flags choose.
Result<std::unique_ptr<certificate::CaStore>> open_store(const LoadCaOptions& with) {
  const CaOptions& options = with.options.ca;
  const std::string preset = with.cluster ? "kubernetes" : "directory";
  const std::string& store = options.ca_store.empty() ? preset : options.ca_store;
  if (store == "etcd") return etcd::make_ca_store(etcd_of(options, with.runtime));
  if (with.cluster && store == "directory")
    return invalid("--ca-store directory: this daemon keeps none; take kubernetes or etcd");
  if (!with.cluster && store == "kubernetes")
    return invalid("--ca-store kubernetes: the mesh is not on Kubernetes; take directory or etcd");
  return with.backend.ca_store({kOwnRoot, options.ca_secret});
}

Result<std::string> read_pem(const std::string& path) {
  OSM_TRY(std::string text, read_file(path, 64 * 1024));
  if (text.empty()) return Error{ErrorCode::kUnreadableSource, path + ": is empty"};
  return text;
}

// The operator's CA as a store keeps it: its key, its certificate, those above.
Result<certificate::PrivateKey> read_ca(const CaOptions& options) {
  OSM_TRY(const std::string certificates, read_pem(options.ca_cert_file));
  OSM_TRY(std::string key, read_pem(options.ca_key_file));
  key.resize(key.find_last_not_of("\r\n") + 1);
  SecretBytes pem(std::move(key));
  pem.append("\n").append(certificates);
  return certificate::PrivateKey(std::move(pem));
}

Status import_own_ca(const LoadCaOptions& with, const certificate::CaOptions& own) {
  const CaOptions& options = with.options.ca;
  OSM_TRY(const certificate::PrivateKey pem, read_ca(options));
  Status imported = certificate::import_ca(own, pem);
  if (imported.ok() || imported.error().code == ErrorCode::kAlreadyExists) return imported;
  return imported.error().with_context("--ca-cert " + options.ca_cert_file + ", --ca-key " +
                                       options.ca_key_file);
}

Result<IssuerPtr> use_cert_manager(const LoadCaOptions& with, const TrustDomain& trust_domain,
                                   const CertManagerProvider& described,
                                   const std::string& ca_file) {
  if (!with.cluster)
    return invalid("cert-manager: the mesh is not on Kubernetes; take tresor or vault");
  std::string bundle;
  if (!ca_file.empty()) {
    OSM_TRY(bundle, read_pem(ca_file));
  }
  OSM_TRY(IssuerPtr issuer, cert_manager::make_issuer({.cluster = *with.cluster,
                                                       .runtime = with.runtime,
                                                       .trust_domain = trust_domain,
                                                       .osm_namespace = with.options.osm_namespace,
                                                       .issuer = {.name = described.issuer_name,
                                                                  .kind = described.issuer_kind,
                                                                  .group = described.issuer_group},
                                                       .trust_bundle_pem = std::move(bundle)}));
  return issuer;
}

Result<IssuerPtr> use_store(const certificate::CaOptions& options) {
  OSM_TRY(IssuerPtr issuer, certificate::load_or_create_ca(options));
  return issuer;
}

// A token of the pod's ServiceAccount for the audience "vault", which the kubelet renews. The pod's
// other token would let whoever it is sent to act on the API server as this daemon.
constexpr const char* kVaultAudienceToken = "/var/run/secrets/openservicemesh.io/vault/token";

// An issuer with the lane that looks after its token: when Vault is away it waits, and nobody else
// does.
struct VaultCa {
  explicit VaultCa(net::Lanes& lanes) : lane(lanes, {.name = "Vault", .bound = 2}) {}

  net::Lane lane;
  std::unique_ptr<certificate::Issuer> issuer;
};

// `ca_pem`: the roots that Vault's certificate is verified with; none: the system's. A token in a
// Secret of the mesh's namespace is read through the API, again when it is refused.
Result<IssuerPtr> make_vault_ca(const LoadCaOptions& with, const VaultProvider& described,
                                vault::Source ca_pem) {
  const auto ca = std::make_shared<VaultCa>(with.runtime.lanes());
  vault::IssuerOptions options{
      .address = {described.host, number(described.port), ""},
      .tls = described.protocol != "http",
      .ca_pem = std::move(ca_pem),
      .vault_namespace = described.vault_namespace,
      .mount = described.mount,
      .role = described.role,
      .start_timeout = std::chrono::milliseconds(0),  // the caller tries again
      .io = with.runtime.asio(),
      .runtime = with_executors(with.runtime, with.runtime.executor, ca->lane)};
  if (!described.token_file.empty()) options.token = vault::from_file(described.token_file);
  if (!described.token_secret_name.empty())
    options.token = [cluster = with.cluster, described] {
      return kubernetes::read_secret(*cluster, described.token_secret_namespace,
                                     described.token_secret_name, described.token_secret_key);
    };
  if (!described.auth_role.empty())
    options.kubernetes = vault::KubernetesLogin{.mount = described.auth_mount,
                                                .role = described.auth_role,
                                                .jwt = vault::from_file(kVaultAudienceToken)};
  OSM_TRY(ca->issuer, vault::make_vault_issuer(options));
  return IssuerPtr(ca, ca->issuer.get());
}

}  // namespace

etcd::CaStoreOptions etcd_of(const CaOptions& options, OwnRuntime& runtime) {
  return {.endpoints = options.etcd_endpoints,
          .key = options.etcd_key,
          .ca_file = options.etcd_ca_file,
          .certificate_file = options.etcd_cert_file,
          .key_file = options.etcd_key_file,
          .user = options.etcd_user,
          .password_file = options.etcd_password_file,
          .io = runtime.asio(),
          .blocking = runtime.blocking};
}

Result<IssuerPtr> load_ca(const LoadCaOptions& with) {
  const CaOptions& options = with.options.ca;
  const TrustDomain& trust_domain = with.options.trust_domain;
  const bool own = !options.ca_cert_file.empty();
  if (own && options.certificate_manager != "tresor")
    return invalid("--ca-cert: " + options.certificate_manager +
                   " signs with a CA of its own: take --certificate-manager tresor, or leave "
                   "--ca-cert and --ca-key out");
  if (options.certificate_manager == "cert-manager")
    return use_cert_manager(with, trust_domain, options.cert_manager, options.cert_manager_ca_file);
  if (options.certificate_manager == "vault")
    return make_vault_ca(
        with, options.vault,
        options.vault_ca_file.empty() ? vault::Source() : vault::from_file(options.vault_ca_file));
  OSM_TRY(const auto store, open_store(with));
  OSM_TRY(certificate::KnownCa known, known_ca(*with.backend.root_rotation, kOwnRoot));
  const certificate::CaOptions ca{*store, trust_domain, with.runtime.clock, std::move(known)};
  if (own) {
    OSM_TRY(import_own_ca(with, ca));
  }
  return use_store(ca);
}

RootRules root_rules(const LoadCaOptions& with) {
  const CaOptions& options = with.options.ca;
  RootRules rules{.vault_hosts = options.vault_allowed_hosts,
                  .token_files_in = options.vault_token_dir,
                  .secrets_of = with.cluster ? with.options.osm_namespace : ""};
  if (!options.vault.host.empty()) rules.vault_hosts.push_back(options.vault.host);
  return rules;
}

Result<IssuerPtr> open_root(const LoadCaOptions& with, const AllowedRoot& root) {
  const MeshRootCertificate& described = root.object();
  if (const auto* vault = std::get_if<VaultProvider>(&described.provider)) {
    vault::Source ca_pem;
    if (!vault->ca_pem.empty()) ca_pem = [pem = vault->ca_pem] { return Result<std::string>(pem); };
    return make_vault_ca(with, *vault, std::move(ca_pem));
  }
  if (const auto* cert_manager = std::get_if<CertManagerProvider>(&described.provider))
    return use_cert_manager(with, described.trust_domain, *cert_manager, "");
  OSM_TRY(const auto store,
          with.backend.ca_store(
              {described.name, std::get<TresorProvider>(described.provider).secret_name}));
  OSM_TRY(certificate::KnownCa known, known_ca(*with.backend.root_rotation, described.name));
  return use_store({*store, described.trust_domain, with.runtime.clock, std::move(known)});
}

std::optional<Problem> problem_of(const certificate::Issuer& issuer) {
  const Status signs = issuer.health();
  if (signs.ok()) return std::nullopt;
  return Problem{.code = signs.error().code,
                 .object = {},
                 .path = host::kAuthority,
                 .field = {},
                 .cause = signs.error().message};
}

}  // namespace osm::daemon
