// MeshRootCertificates of each provider are decoded, and no error repeats a private key.
#include <doctest/doctest.h>

#include <boost/json/value.hpp>

#include "spec/decode.hpp"
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;

namespace {

const std::string kKind = "MeshRootCertificate";
const std::string kTresor =
    "provider: {tresor: {ca: {secretRef: {name: osm-ca-bundle, namespace: osm-system}}}}";

MeshRootCertificate root_of(std::string_view spec) {
  return good(decode_root_certificate(object_of(kConfigApi, kKind, spec)));
}

// A Vault with these lines besides its host and role, in one line of YAML.
std::string vault_with(const std::string& more) {
  return "provider: {vault: {host: vault.internal, role: mesh, " + more + "}}";
}

}  // namespace

TEST_SUITE("spec::decode_root_certificate") {
  TEST_CASE("each provider is read with all its fields") {
    const MeshRootCertificate tresor = root_of("trustDomain: a.example\nrole: passive\n" + kTresor);
    CHECK(tresor.name == "it");
    CHECK(tresor.trust_domain == TrustDomain("a.example"));
    CHECK(tresor.role == RootRole::kPassive);
    CHECK(std::get<TresorProvider>(tresor.provider) ==
          TresorProvider{"osm-ca-bundle", "osm-system"});

    const MeshRootCertificate vault = root_of(R"(role: inactive
provider:
  vault:
    host: 10.0.0.7
    port: 443
    protocol: https
    mount: pki/mesh
    role: osm-mesh
    namespace: team/a
    token: {secretKeyRef: {name: vault, key: token.txt, namespace: osm-system}}
    caBundle: |
      -----BEGIN CERTIFICATE-----
      MII=
      -----END CERTIFICATE-----)");
    CHECK(vault.role == RootRole::kInactive);
    const auto& server = std::get<VaultProvider>(vault.provider);
    CHECK(server.host == "10.0.0.7");
    CHECK(server.port == Port{443});
    CHECK(server.mount == "pki/mesh");
    CHECK(server.role == "osm-mesh");
    CHECK(server.vault_namespace == "team/a");
    CHECK(server.token_secret_name == "vault");
    CHECK(server.token_secret_key == "token.txt");
    CHECK(server.token_secret_namespace == "osm-system");
    CHECK(server.ca_pem.find("MII=") != std::string::npos);

    const MeshRootCertificate issuer = root_of(
        "provider: {certManager: {issuerName: ca, issuerKind: ClusterIssuer, issuerGroup: a.b}}");
    CHECK(std::get<CertManagerProvider>(issuer.provider) ==
          CertManagerProvider{"ca", "ClusterIssuer", "a.b"});
  }

  TEST_CASE("fingerprints are read as openssl and Kubernetes write them") {
    std::string colons;
    for (int i = 0; i < 32; ++i) colons += i == 0 ? "AB" : ":AB";
    std::string plain;
    for (int i = 0; i < 32; ++i) plain += "ab";
    const auto root =
        root_of("rootFingerprints: [\"" + colons + "\", \"sha256:" + plain + "\"]\n" + kTresor);
    CHECK(root.root_fingerprints == std::vector<std::string>{plain, plain});
  }

  TEST_CASE("absent fields have their defaults") {
    const MeshRootCertificate root = root_of(kTresor);
    CHECK(root.trust_domain == TrustDomain());  // the mesh's
    CHECK(root.role == RootRole::kActive);
    CHECK(root.generation == 0);
    const auto vault =
        std::get<VaultProvider>(root_of(vault_with("tokenFile: /etc/osm/token")).provider);
    CHECK(vault.port == Port{8200});
    CHECK(vault.protocol == "https");
    CHECK(vault.mount == "pki");
    CHECK(vault.token_file == "/etc/osm/token");
    CHECK(vault.ca_pem.empty());
    const auto kubernetes =
        std::get<VaultProvider>(root_of(vault_with("auth: {role: osm}")).provider);
    CHECK(kubernetes.auth_mount == "kubernetes");
    CHECK(kubernetes.auth_role == "osm");
    const auto issuer = std::get<CertManagerProvider>(
        root_of("provider: {certManager: {issuerName: ca}}").provider);
    CHECK(issuer.issuer_kind == "Issuer");
    CHECK(issuer.issuer_group == "cert-manager.io");
  }

  TEST_CASE("the generation is the server's") {
    Object object = object_of(kConfigApi, kKind, kTresor);
    boost::json::value document = *object.document;
    document.as_object().at("metadata").as_object()["generation"] = 7;
    object.document = std::make_shared<const boost::json::value>(std::move(document));
    CHECK(good(decode_root_certificate(object)).generation == 7);
  }

  TEST_CASE("a token reaches a loopback host without TLS, and no other") {
    for (const char* host : {"localhost", "127.0.0.1", "127.8.8.8", "'::1'"}) {
      CAPTURE(host);
      CHECK(std::get<VaultProvider>(root_of("provider: {vault: {host: " + std::string(host) +
                                            ", role: r, protocol: http, tokenFile: /t}}")
                                        .provider)
                .protocol == "http");
    }
    for (const char* host : {"127.example.com", "localhost.example.com", "10.0.0.1", "'fd00::1'"}) {
      CAPTURE(host);
      const auto decoded =
          decode_root_certificate(object_of(kConfigApi, kKind,
                                            "provider: {vault: {host: " + std::string(host) +
                                                ", role: r, protocol: http, tokenFile: /t}}"));
      CHECK_FALSE(decoded.value);
      REQUIRE(decoded.problems.size() == 1);
      CHECK(decoded.problems[0].field == "spec.provider.vault.protocol");
    }
  }

  TEST_CASE("a bad MeshRootCertificate says which field, which line and what to do") {
    const std::string token = "tokenFile: /t";
    const std::vector<Wrong> rows{
        {"{}", kField, "spec.provider", 6, "required"},
        {"provider: {}", kField, "spec.provider", 7, "exactly one of tresor, vault"},
        {"rootFingerprints: [abc]\n" + kTresor, kField, "spec.rootFingerprints[0]", 7,
         "64 hex digits"},
        {"rootFingerprints: [" + std::string(63, '0') + "g]\n" + kTresor, kField,
         "spec.rootFingerprints[0]", 7, "64 hex digits"},
        {"provider: tresor", kField, "spec.provider", 7, "must be a map"},
        {"provider: {acme: {}, certManager: {issuerName: a}}", kField, "spec.provider.acme", 7,
         "known here: tresor"},
        {"provider: {tresor: {ca: {secretRef: {name: a, namespace: b}}}, certManager: "
         "{issuerName: a}}",
         kField, "spec.provider", 7, "exactly one"},
        {"provider: {tresor: {}}", kField, "spec.provider.tresor.ca", 7, "required"},
        {"provider: {tresor: {ca: {}}}", kField, "spec.provider.tresor.ca.secretRef", 7,
         "required"},
        {"provider: {tresor: {ca: {secretRef: {name: A, namespace: b}}}}", kField,
         "spec.provider.tresor.ca.secretRef.name", 7, "DNS name"},
        {"provider: {tresor: {ca: {secretRef: {name: a}}}}", kField,
         "spec.provider.tresor.ca.secretRef.namespace", 7, "required"},
        {"provider: {tresor: {ca: {secretRef: {name: a, namespace: b, key: c}}}}", kField,
         "spec.provider.tresor.ca.secretRef.key", 7, "no such field"},
        {"provider: {certManager: {}}", kField, "spec.provider.certManager.issuerName", 7,
         "required"},
        {"provider: {certManager: {issuerName: ''}}", kField,
         "spec.provider.certManager.issuerName", 7, "must not be empty"},
        {"provider: {certManager: {issuerName: a, issuerKind: AWSPCAIssuer}}", kField,
         "spec.provider.certManager.issuerKind", 7, "Issuer, ClusterIssuer"},
        {"provider: {certManager: {issuerName: a, issuerGroup: A}}", kField,
         "spec.provider.certManager.issuerGroup", 7, "DNS name"},
        {"provider: {vault: {host: v, role: r}}", kField, "spec.provider.vault", 7,
         "needs a credential"},
        {"provider: {vault: {host: v, role: r, tokenFile: /t, auth: {role: r}}}", kField,
         "spec.provider.vault", 7, "more than one credential"},
        {"provider: {vault: {role: r, tokenFile: /t}}", kField, "spec.provider.vault.host", 7,
         "required"},
        {"provider: {vault: {host: v, tokenFile: /t}}", kField, "spec.provider.vault.role", 7,
         "required"},
        {"provider: {vault: {host: 'https://v:8200', role: r, tokenFile: /t}}", kField,
         "spec.provider.vault.host", 7, "without scheme and port"},
        {"provider: {vault: {host: v, role: ../a, tokenFile: /t}}", kField,
         "spec.provider.vault.role", 7, "must be a name"},
        {"provider: {vault: {host: v, role: .., tokenFile: /t}}", kField,
         "spec.provider.vault.role", 7, "must be a name"},
        {vault_with("port: 0, " + token), kField, "spec.provider.vault.port", 7, "from 1 to 65535"},
        {vault_with("port: '8200', " + token), kField, "spec.provider.vault.port", 7,
         "whole number"},
        {vault_with("protocol: ftp, " + token), kField, "spec.provider.vault.protocol", 7,
         "https, http"},
        {vault_with("mount: /pki, " + token), kField, "spec.provider.vault.mount", 7,
         "without '/'"},
        {vault_with("mount: pki/, " + token), kField, "spec.provider.vault.mount", 7,
         "without '/'"},
        {vault_with("mount: pki/../sys, " + token), kField, "spec.provider.vault.mount", 7,
         "without '/'"},
        {vault_with("mount: 'pki?x', " + token), kField, "spec.provider.vault.mount", 7,
         "without '/'"},
        {vault_with("namespace: 'a b', " + token), kField, "spec.provider.vault.namespace", 7,
         "without '/'"},
        {vault_with("tokenFile: token"), kField, "spec.provider.vault.tokenFile", 7,
         "absolute path"},
        {vault_with("token: {}"), kField, "spec.provider.vault.token.secretKeyRef", 7, "required"},
        {vault_with("token: {secretKeyRef: {name: a, key: b}}"), kField,
         "spec.provider.vault.token.secretKeyRef.namespace", 7, "required"},
        {vault_with("token: {secretKeyRef: {name: a, namespace: b}}"), kField,
         "spec.provider.vault.token.secretKeyRef.key", 7, "required"},
        {vault_with("token: {secretKeyRef: {name: a, key: b/c, namespace: d}}"), kField,
         "spec.provider.vault.token.secretKeyRef.key", 7, "must be a name"},
        {vault_with("auth: {}"), kField, "spec.provider.vault.auth.role", 7, "required"},
        {vault_with("auth: {role: a, mount: ''}"), kField, "spec.provider.vault.auth.mount", 7,
         "must not be empty"},
        {vault_with("caBundle: MII=, " + token), kField, "spec.provider.vault.caBundle", 7,
         "in PEM, as text"},
        {vault_with("caBundle: '-----BEGIN CERTIFICATE----- -----BEGIN EC PRIVATE KEY-----', " +
                    token),
         kField, "spec.provider.vault.caBundle", 7, "replace that key"},
        {vault_with("skipVerify: true, " + token), kField, "spec.provider.vault.skipVerify", 7,
         "no such field"},
        {"trustDomain: ''\n" + kTresor, kField, "spec.trustDomain", 7, "must not be empty"},
        {"trustDomain: a_b\n" + kTresor, kField, "spec.trustDomain", 7, "DNS name"},
        {"role: Active\n" + kTresor, kField, "spec.role", 7, "active, passive, inactive"},
        {"role: 7\n" + kTresor, kField, "spec.role", 7, "must be a string"},
        {"roles: active\n" + kTresor, kField, "spec.roles", 7, "no such field"},
        {"spiffeEnabled: true\n" + kTresor, ErrorCode::kUnusedField, "spec.spiffeEnabled", 7,
         "always carry", false},
    };
    check_wrong<MeshRootCertificate>(kConfigApi, kKind, decode_root_certificate, rows);
  }

  TEST_CASE("no problem quotes a private key") {
    const auto decoded = decode_root_certificate(
        object_of(kConfigApi, kKind,
                  vault_with("tokenFile: /t, caBundle: '-----BEGIN PRIVATE KEY-----MIGH'")));
    CHECK_FALSE(decoded.value);
    for (const Problem& problem : decoded.problems)
      CHECK(problem.text().find("MIGH") == std::string::npos);
  }
}
