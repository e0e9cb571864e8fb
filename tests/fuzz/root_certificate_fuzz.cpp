// MeshRootCertificates as people write them: a provider that is accepted is taken exactly, leads to
// one place of one server without showing a token to the network, and no refusal quotes a key.
//
//   input: '0' Tresor, '1' Vault, '2' cert-manager, '3' two of them; the number of credentials; 'h'
//   for http; then lines, empty for "absent": name, trust domain, role, host, mount, signing role,
//   Vault namespace, secret, its namespace, its key, token file, auth mount, CA bundle,
//   fingerprint.
#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "fuzz/fuzz.hpp"
#include "fuzz/object_edits.hpp"
#include "spec/decode.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

constexpr std::string_view kKey = "PRIVATE KEY-----";

struct Wanted {
  std::string name, domain, role, host, mount, sign_role, ns, secret, secret_ns, key, file, auth,
      bundle, fingerprint;
};

// Absent if it is empty.
void put(json::object& map, std::string_view name, const std::string& text) {
  if (!text.empty()) map[name] = text;
}

json::object vault_of(const Wanted& wanted, std::size_t credentials, bool http) {
  json::object vault;
  put(vault, "host", wanted.host);
  if (http) vault["protocol"] = "http";
  put(vault, "mount", wanted.mount);
  put(vault, "role", wanted.sign_role);
  put(vault, "namespace", wanted.ns);
  put(vault, "caBundle", wanted.bundle);
  if (credentials & 1) {
    json::object ref;
    put(ref, "name", wanted.secret);
    put(ref, "namespace", wanted.secret_ns);
    put(ref, "key", wanted.key);
    vault["token"] = json::object{{"secretKeyRef", ref}};
  }
  if (credentials & 2) vault["tokenFile"] = wanted.file;
  if (credentials & 4) vault["auth"] = json::object{{"mount", wanted.auth}, {"role", wanted.key}};
  return vault;
}

json::value document_of(const Wanted& wanted, std::size_t kind, std::size_t credentials,
                        bool http) {
  json::object provider;
  if (kind == 0 || kind == 3)
    provider["tresor"] = json::object{
        {"ca", json::object{{"secretRef", json::object{{"name", wanted.secret},
                                                       {"namespace", wanted.secret_ns}}}}}};
  if (kind == 1 || kind == 3) provider["vault"] = vault_of(wanted, credentials, http);
  if (kind == 2) {
    json::object issuer{{"issuerName", wanted.secret}};
    put(issuer, "issuerKind", wanted.key);
    put(issuer, "issuerGroup", wanted.auth);
    provider["certManager"] = std::move(issuer);
  }
  json::object spec{{"provider", std::move(provider)}};
  put(spec, "trustDomain", wanted.domain);
  put(spec, "role", wanted.role);
  if (!wanted.fingerprint.empty()) spec["rootFingerprints"] = json::array{wanted.fingerprint};
  return json::object{{"apiVersion", "config.openservicemesh.io/v1alpha2"},
                      {"kind", "MeshRootCertificate"},
                      {"metadata", json::object{{"name", wanted.name}, {"namespace", "osm"}}},
                      {"spec", std::move(spec)}};
}

// A part of a URL below which the server looks for what is meant.
bool is_path(const std::string& text) {
  if (text.empty() || text.front() == '/' || text.back() == '/') return false;
  std::size_t at = 0;
  for (;;) {
    const auto end = std::min(text.find('/', at), text.size());
    const std::string part = text.substr(at, end - at);
    const bool plain = std::ranges::all_of(part, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_' || c == '.';
    });
    if (part.empty() || part == "." || part == ".." || !plain) return false;
    if (end == text.size()) return true;
    at = end + 1;
  }
}

void check_vault(const VaultProvider& vault, const Wanted& wanted) {
  require(vault.host == wanted.host && vault.role == wanted.sign_role, "names are taken exactly");
  require(vault.host.find_first_of(":/@?# ") == std::string::npos ||
              vault.host.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos,
          "a host is a host", vault.host);
  require(vault.protocol == "https" || vault.host == "localhost" || vault.host == "::1" ||
              vault.host.starts_with("127."),
          "a token goes over TLS", vault.host);
  for (const std::string& path : {vault.mount, vault.role, vault.auth_mount})
    require(is_path(path), "a path leads to one place", path);
  require(vault.vault_namespace.empty() || is_path(vault.vault_namespace), "a namespace is a path");
  require(vault.token_file.empty() ||
              (vault.token_file.front() == '/' && vault.token_file.find('\0') == std::string::npos),
          "a token's file is absolute", vault.token_file);
  const int ways = int{!vault.token_secret_name.empty()} + int{!vault.token_file.empty()} +
                   int{!vault.auth_role.empty()};
  require(ways == 1, "there is one credential");
  require(vault.ca_pem == wanted.bundle && vault.ca_pem.find(kKey) == std::string::npos,
          "a bundle is taken exactly, and has no key");
}

void check(const MeshRootCertificate& root, const Wanted& wanted) {
  require(root.name == wanted.name && root.trust_domain.str() == wanted.domain,
          "names are taken exactly", root.name);
  for (const std::string& one : root.root_fingerprints)
    require(one.size() == 64 && one.find_first_not_of("0123456789abcdef") == std::string::npos,
            "a fingerprint is a SHA-256", one);
  if (const auto* vault = std::get_if<VaultProvider>(&root.provider)) check_vault(*vault, wanted);
  if (const auto* tresor = std::get_if<TresorProvider>(&root.provider))
    require(tresor->secret_name == wanted.secret && is_dns_subdomain(tresor->secret_name) &&
                tresor->secret_namespace == wanted.secret_ns && is_dns_label(wanted.secret_ns),
            "a Secret's name is taken exactly");
  if (const auto* issuer = std::get_if<CertManagerProvider>(&root.provider))
    require(issuer->issuer_name == wanted.secret && is_dns_subdomain(issuer->issuer_name) &&
                is_dns_subdomain(issuer->issuer_group),
            "an issuer's name is taken exactly");
}

void run(Choices choices) {
  const std::size_t kind = choices.below(4);
  const std::size_t credentials = choices.below(8);
  const bool http = choices.byte() == 'h';
  choices.line();
  Wanted wanted;
  for (std::string* each :
       {&wanted.name, &wanted.domain, &wanted.role, &wanted.host, &wanted.mount, &wanted.sign_role,
        &wanted.ns, &wanted.secret, &wanted.secret_ns, &wanted.key, &wanted.file, &wanted.auth,
        &wanted.bundle, &wanted.fingerprint})
    *each = choices.line();
  const Object object = object_of(document_of(wanted, kind, credentials, http));
  const auto decoded = spec::decode_root_certificate(object);
  require(decoded.value || !decoded.problems.empty(), "a root that is left out has a reason");
  for (const Problem& problem : decoded.problems)
    require(problem.cause.size() < 500, "a problem is bounded", problem.cause);
  if (!decoded.value) return;
  require(kind != 3, "a root has one provider");
  check(*decoded.value, wanted);
}

const bool kAdded = add("root_certificate", [](std::string_view input) { run(Choices(input)); });

}  // namespace
