// MeshRootCertificate, config.openservicemesh.io/v1alpha2.
#include <algorithm>

#include "model/ip_address.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::size_t kMaxPathBytes = 4096;  // PATH_MAX
constexpr std::size_t kMaxNameBytes = 253;
constexpr std::size_t kMaxPemBytes = 64 * 1024;
constexpr std::size_t kFingerprintDigits = 64;
constexpr std::size_t kMaxFingerprints = 16;
constexpr std::string_view kPemBegin = "-----BEGIN CERTIFICATE-----";

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (model::is_ipv4(host) && host.substr(0, 4) == "127.");
}

// True for one part of a path. The part goes into a URL, so parts that lead elsewhere are refused.
bool is_segment(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && consists_of(text, "-_.");
}

bool is_relative_path(std::string_view text) {
  if (text.size() > kMaxNameBytes) return false;
  for (;;) {
    const auto slash = text.find('/');
    if (!is_segment(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

std::string segment_of(const Field& field) {
  std::string text = field.required_text();
  if (!text.empty() && (text.size() > kMaxNameBytes || !is_segment(text)))
    field.refuse("must be a name: letters, digits, '-', '_' and '.', at most 253");
  return text;
}

// `fallback` if the field is absent.
std::string relative_path_of(const Field& field, std::string fallback) {
  if (!field.present()) return fallback;
  std::string text = field.required_text();
  if (!text.empty() && !is_relative_path(text))
    field.refuse(
        "must be a path without '/' at its ends, such as pki or pki/mesh: letters, digits, '-', "
        "'_' and '.' between slashes, at most 253");
  return text;
}

TresorProvider tresor_of(const Field& field) {
  TresorProvider tresor;
  if (const auto [map, ca] = field.required_map("ca"); map)
    if (const auto [is_ca, secret] = ca.required_map("secretRef"); is_ca)
      if (const auto [is_secret, name, ns] = secret.required_map("name", "namespace"); is_secret) {
        tresor.secret_name = required_subdomain(name);
        tresor.secret_namespace = required_label(ns);
      }
  return tresor;
}

void read_token(const Field& field, VaultProvider& vault) {
  if (const auto [map, secret] = field.required_map("secretKeyRef"); map)
    if (const auto [is_secret, name, key, ns] = secret.required_map("name", "key", "namespace");
        is_secret) {
      vault.token_secret_name = required_subdomain(name);
      vault.token_secret_namespace = required_label(ns);
      vault.token_secret_key = segment_of(key);
    }
}

void read_token_file(const Field& field, VaultProvider& vault) {
  vault.token_file = field.required_text();
  if (vault.token_file.empty()) return;
  if (vault.token_file.front() != '/' || vault.token_file.size() > kMaxPathBytes ||
      vault.token_file.find('\0') != std::string::npos)
    field.refuse("must be the absolute path of a file on the controller's machine");
}

void read_auth(const Field& field, VaultProvider& vault) {
  const auto [map, mount, role] = field.required_map("mount", "role");
  if (!map) return;
  vault.auth_mount = relative_path_of(mount, std::move(vault.auth_mount));
  vault.auth_role = segment_of(role);
}

// The controller's credential for Vault. Exactly one kind is accepted, so that it is clear which
// one is in use.
void read_credential(const Field& field, const Field& token, const Field& file, const Field& auth,
                     VaultProvider& vault) {
  const int ways = int{token.present()} + int{file.present()} + int{auth.present()};
  if (ways != 1) {
    field.refuse(std::string(ways == 0 ? "needs a credential" : "has more than one credential") +
                 "; give one of token.secretKeyRef, tokenFile (on machines) and auth (Kubernetes "
                 "auth)");
  }
  if (token.present()) read_token(token, vault);
  if (file.present()) read_token_file(file, vault);
  if (auth.present()) read_auth(auth, vault);
}

std::string ca_pem_of(const Field& field) {
  if (!field.present()) return "";
  std::string pem = field.required_text();
  if (pem.size() > kMaxPemBytes) {
    field.refuse("larger than 64 KiB", ErrorCode::kTooLarge);
  } else if (pem.find("PRIVATE KEY-----") != std::string::npos) {
    field.refuse(
        "contains a private key, which every reader of this object now has; replace that key, "
        "and give certificates only");
  } else if (!pem.empty() && pem.find(kPemBegin) == std::string::npos) {
    field.refuse("must be certificates in PEM, as text: " + std::string(kPemBegin) + "...");
  }
  return pem;
}

VaultProvider vault_of(const Field& field) {
  VaultProvider vault;
  const auto [map, host, port, protocol, mount, role, ns, token, file, auth, bundle] =
      field.required_map("host", "port", "protocol", "mount", "role", "namespace", "token",
                         "tokenFile", "auth", "caBundle");
  if (!map) return vault;
  vault.host = host_of(host.required());
  vault.port = port.port().value_or(vault.port);
  if (choice_of(protocol, {"https", "http"}) == 1) vault.protocol = "http";
  if (vault.protocol == "http" && !vault.host.empty() && !is_loopback(vault.host))
    protocol.refuse(
        "http would show the token to the network; use https (http is for a loopback host)");
  vault.mount = relative_path_of(mount, std::move(vault.mount));
  vault.role = segment_of(role);
  vault.vault_namespace = relative_path_of(ns, "");
  read_credential(field, token, file, auth, vault);
  vault.ca_pem = ca_pem_of(bundle);
  return vault;
}

CertManagerProvider cert_manager_of(const Field& field) {
  CertManagerProvider issuer;
  const auto [map, name, kind, group] =
      field.required_map("issuerName", "issuerKind", "issuerGroup");
  if (!map) return issuer;
  issuer.issuer_name = required_subdomain(name);
  if (choice_of(kind, {"Issuer", "ClusterIssuer"}) == 1) issuer.issuer_kind = "ClusterIssuer";
  if (group.present()) issuer.issuer_group = required_subdomain(group);
  return issuer;
}

void read_provider(const Field& field, MeshRootCertificate& root) {
  const auto [map, tresor, vault, issuer] = field.required_map("tresor", "vault", "certManager");
  if (!map) return;
  if (int{tresor.present()} + int{vault.present()} + int{issuer.present()} != 1)
    field.refuse("must be exactly one of tresor, vault and certManager");
  if (tresor.present()) root.provider = tresor_of(tresor);
  if (vault.present()) root.provider = vault_of(vault);
  if (issuer.present()) root.provider = cert_manager_of(issuer);
}

// As `openssl x509 -fingerprint -sha256` prints it, or as Kubernetes users write digests.
std::string fingerprint_of(const Field& field) {
  std::string text = field.required_text();
  if (text.starts_with("sha256:")) text.erase(0, 7);
  std::erase(text, ':');
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (text.size() != kFingerprintDigits ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    field.refuse(
        "must be the SHA-256 of a certificate, 64 hex digits, as "
        "\"openssl x509 -noout -fingerprint -sha256\" prints it after '='");
  return text;
}

void read_fingerprints(const Field& field, MeshRootCertificate& root) {
  const std::vector<Field> all = field.list();
  if (all.size() > kMaxFingerprints)
    return field.refuse("has more than 16 entries", ErrorCode::kTooLarge);
  for (const Field& one : all) root.root_fingerprints.push_back(fingerprint_of(one));
}

}  // namespace

Decoded<MeshRootCertificate> decode_root_certificate(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  MeshRootCertificate root;
  root.name = object.key.name;
  root.generation = reader.root()["metadata"]["generation"].integer(0, INT64_MAX).value_or(0);
  const auto [map, domain, role, provider, fingerprints, spiffe] =
      reader.root()["spec"].required_map("trustDomain", "role", "provider", "rootFingerprints",
                                         "spiffeEnabled");
  if (map) {
    root.trust_domain = domain.present() ? TrustDomain(required_dns_name(domain)) : TrustDomain();
    root.role = choice_of(role,
                          {{"active", RootRole::kActive},
                           {"passive", RootRole::kPassive},
                           {"inactive", RootRole::kInactive}},
                          RootRole::kActive);
    if (spiffe.present()) {
      static_cast<void>(spiffe.boolean());
      spiffe.note("has no effect: certificates of this mesh always carry SPIFFE ids");
    }
    read_provider(provider, root);
    read_fingerprints(fingerprints, root);
  }
  return std::move(reader).finish(std::move(root));
}

}  // namespace osm::inline v1::spec
