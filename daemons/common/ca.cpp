#include "ca.hpp"

#include <fstream>
#include <string>
#include <utility>

#include "osm/certificate/ca_store.hpp"
#include "osm/certificate/cert_manager.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/etcd_ca.hpp"
#include "vault_ca.hpp"

namespace osm::daemon {
namespace {

constexpr std::size_t kMaxPem = 64 * 1024;

Result<std::unique_ptr<certificate::CaStore>> open_etcd(const LoadCaOptions& with,
                                                        const std::string& key) {
  const CaOptions& options = with.options;
  return etcd::make_ca_store({.endpoints = options.etcd_endpoints,
                              .key = key,
                              .ca_file = options.etcd_ca_file,
                              .certificate_file = options.etcd_cert_file,
                              .key_file = options.etcd_key_file,
                              .user = options.etcd_user,
                              .password_file = options.etcd_password_file,
                              .io = with.io,
                              .blocking = with.runtime.blocking});
}

// One machine's, and never shared: replicas elsewhere would not know it.
Result<std::unique_ptr<certificate::CaStore>> open_directory(const LoadCaOptions& with) {
  if (with.directory.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "--ca-store directory: this daemon keeps none; take kubernetes or etcd"};
  return certificate::open_directory_ca_store(with.directory);
}

Result<std::unique_ptr<certificate::CaStore>> open_store(const LoadCaOptions& with,
                                                         const std::string& store) {
  if (store == "etcd") return open_etcd(with, with.options.etcd_key);
  if (store == "directory") return open_directory(with);
  if (with.cluster)
    return kubernetes::make_ca_store(*with.cluster, with.osm_namespace, with.options.ca_secret);
  return Error{ErrorCode::kInvalidArgument,
               "--ca-store kubernetes: the mesh is not on Kubernetes; take directory or etcd"};
}

// In one piece and unbuffered: a key is to be left behind nowhere.
Result<std::string> read_pem(const std::string& path) {
  std::ifstream file;
  file.rdbuf()->pubsetbuf(nullptr, 0);
  file.open(path, std::ios::binary);
  std::string text(kMaxPem + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!text.empty() && text.size() <= kMaxPem) return text;
  return Error{ErrorCode::kUnreadableSource,
               path + ": cannot be read, is empty, or is larger than 64 kB"};
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

Status import_own_ca(const LoadCaOptions& with, certificate::CaStore& store) {
  const CaOptions& options = with.options;
  OSM_TRY(const certificate::PrivateKey pem, read_ca(options));
  Status imported = certificate::import_ca(store, pem, with.runtime.clock);
  if (imported.ok() || imported.error().code == ErrorCode::kAlreadyExists) return imported;
  return imported.error().with_context("--ca-cert " + options.ca_cert_file + ", --ca-key " +
                                       options.ca_key_file);
}

Result<std::unique_ptr<certificate::Issuer>> use_cert_manager(const LoadCaOptions& with,
                                                              const CertManagerProvider& described,
                                                              const std::string& ca_file) {
  if (!with.cluster)
    return Error{ErrorCode::kInvalidArgument,
                 "cert-manager: the mesh is not on Kubernetes; take tresor or vault"};
  std::string bundle;
  if (!ca_file.empty()) {
    OSM_TRY(bundle, read_pem(ca_file));
  }
  return cert_manager::make_issuer({.cluster = *with.cluster,
                                    .runtime = with.runtime,
                                    .trust_domain = with.trust_domain,
                                    .osm_namespace = with.osm_namespace,
                                    .issuer = {.name = described.issuer_name,
                                               .kind = described.issuer_kind,
                                               .group = described.issuer_group},
                                    .trust_bundle_pem = std::move(bundle)});
}

// Our own CA: where the object says, and where there are no Secrets as this daemon's own is kept.
Result<std::unique_ptr<certificate::Issuer>> load_tresor(const LoadCaOptions& with,
                                                         const std::string& name,
                                                         const TresorProvider& described) {
  std::unique_ptr<certificate::CaStore> store;
  if (with.cluster) {
    const std::string& ns =
        described.secret_namespace.empty() ? with.osm_namespace : described.secret_namespace;
    store = kubernetes::make_ca_store(*with.cluster, ns, described.secret_name);
  } else if (with.options.ca_store == "etcd") {
    OSM_TRY(store, open_etcd(with, with.options.etcd_key + "/roots/" + name));
  } else {
    OSM_TRY(store, open_directory(with));
  }
  return certificate::load_or_create_ca(
      {.store = *store, .trust_domain = with.trust_domain, .clock = with.runtime.clock});
}

Result<std::unique_ptr<certificate::Issuer>> load_root(const LoadCaOptions& with,
                                                       const MeshRootCertificate& described) {
  if (const auto* vault = std::get_if<VaultProvider>(&described.provider)) {
    vault::Source ca_pem;
    if (!vault->ca_pem.empty()) ca_pem = [pem = vault->ca_pem] { return Result<std::string>(pem); };
    return make_vault_ca(with, *vault, std::move(ca_pem));
  }
  if (const auto* cert_manager = std::get_if<CertManagerProvider>(&described.provider))
    return use_cert_manager(with, *cert_manager, "");
  return load_tresor(with, described.name, std::get<TresorProvider>(described.provider));
}

}  // namespace

Result<std::unique_ptr<certificate::Issuer>> load_ca(const LoadCaOptions& with) {
  const bool own = !with.options.ca_cert_file.empty();
  if (own && with.options.certificate_manager != "tresor")
    return Error{ErrorCode::kInvalidArgument,
                 "--ca-cert: " + with.options.certificate_manager +
                     " signs with a CA of its own: take --certificate-manager tresor, or leave "
                     "--ca-cert and --ca-key out"};
  if (with.options.certificate_manager == "cert-manager")
    return use_cert_manager(with, with.options.cert_manager, with.options.cert_manager_ca_file);
  if (with.options.certificate_manager == "vault")
    return make_vault_ca(with, with.options.vault,
                         with.options.vault_ca_file.empty()
                             ? vault::Source()
                             : vault::from_file(with.options.vault_ca_file));
  const std::string preset = with.cluster ? "kubernetes" : "directory";
  const std::string& chosen = with.options.ca_store.empty() ? preset : with.options.ca_store;
  OSM_TRY(const auto store, open_store(with, chosen));
  if (own) {
    OSM_TRY(import_own_ca(with, *store));
  }
  return certificate::load_or_create_ca(
      {.store = *store, .trust_domain = with.trust_domain, .clock = with.runtime.clock});
}

Result<std::shared_ptr<certificate::Issuer>> make_root(LoadCaOptions with,
                                                       const MeshRootCertificate& described) {
  with.trust_domain = described.trust_domain;
  OSM_TRY(auto issuer, load_root(with, described));
  return std::shared_ptr<certificate::Issuer>(std::move(issuer));
}

}  // namespace osm::daemon
