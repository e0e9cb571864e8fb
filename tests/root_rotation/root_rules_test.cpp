// A root rotation opens the CA of an object only if the host allows everything that it names.
#include "osm/certificate/root_rules.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "lib/temporary_directory.hpp"
#include "rotation_rig.hpp"

using namespace osm;
using namespace osm::root_rotation::rig;

namespace {

using Provider = decltype(MeshRootCertificate::provider);

MeshRootCertificate root_of(const Provider& provider) {
  return {.name = "next", .trust_domain = kDomain, .provider = provider};
}

// A mesh whose one MeshRootCertificate has this provider.
struct Declared {
  Declared(const RootRules& rules, const Provider& provider) : mesh(rules) { declare(provider); }

  void declare(const Provider& provider) {
    mesh.opened.clear();
    mesh.spec.put(root_of(provider));
    run(mesh, {&replica}, 3);
  }
  // The reason why its CA was not opened; "" if it was.
  std::string refusal() {
    if (!mesh.opened.empty()) return "";
    CHECK(mesh.cas.empty());
    return status_of(replica, "next").waiting_for;
  }
  // The provider that the opener was given.
  template <typename T>
  T opened() {
    REQUIRE(mesh.opened.contains("next"));
    return std::get<T>(mesh.opened.at("next").provider);
  }

  Mesh mesh;
  Replica replica{mesh, "a"};
};

std::string refusal(const RootRules& rules, const Provider& provider) {
  return Declared(rules, provider).refusal();
}

VaultProvider vault_at(const std::string& host = "vault.example") {
  return {.host = host, .role = "mesh"};
}

VaultProvider with_file(const std::filesystem::path& file) {
  VaultProvider provider = vault_at();
  provider.token_file = file.string();
  return provider;
}

VaultProvider with_secret(const std::string& ns) {
  VaultProvider provider = vault_at();
  provider.token_secret_name = "vault-token";
  provider.token_secret_namespace = ns;
  provider.token_secret_key = "token";
  return provider;
}

const RootRules kOnMachines{.vault_hosts = {"other.example", "vault.example"}};
const RootRules kOnKubernetes{.vault_hosts = {"vault.example"}, .secrets_of = "osm-system"};

}  // namespace

TEST_SUITE("root_rotation::RootRules") {
  TEST_CASE("without rules no Vault is asked") {
    CHECK(refusal({}, vault_at()) ==
          "permission-denied: Vault: host vault.example is not allowed; if it is yours, start the "
          "mesh's daemons with --vault-allowed-host vault.example");
    CHECK(refusal({}, vault_at("")) != "");
  }

  TEST_CASE("a Vault is asked if its host is allowed as it is written") {
    Declared allowed(kOnMachines, vault_at());
    CHECK(allowed.opened<VaultProvider>() == vault_at());
    for (const char* other : {"vault.example.com", "example", "vault.example.", "Vault.example"}) {
      CAPTURE(other);
      CHECK(refusal(kOnMachines, vault_at(other)).find("is not allowed") != std::string::npos);
      allowed.declare(vault_at(other));  // an edit of the object is checked as well
      CHECK(allowed.mesh.opened.empty());
      allowed.declare(vault_at());
      CHECK(allowed.opened<VaultProvider>() == vault_at());
    }
  }

  TEST_CASE("Kubernetes auth needs an allowed host, and nothing else") {
    VaultProvider provider = vault_at();
    provider.auth_role = "osm";
    for (const RootRules& rules : {kOnMachines, kOnKubernetes}) {
      CHECK(Declared(rules, provider).opened<VaultProvider>() == provider);
    }
    CHECK(refusal({.secrets_of = "osm-system"}, provider) != "");
  }

  TEST_CASE("a token file is read only from the directory that is allowed") {
    const testing::TemporaryDirectory temporary;
    const auto tokens = temporary.path() / "tokens", secret = temporary.path() / "secret";
    std::filesystem::create_directories(tokens / "below");
    for (const auto& file : {tokens / "vault", tokens / "below/vault", secret})
      std::ofstream(file) << "s.token";
    std::filesystem::create_symlink(secret, tokens / "leads-out");
    std::filesystem::create_symlink(tokens / "vault", temporary.path() / "leads-in");
    std::filesystem::create_directory_symlink(tokens, temporary.path() / "same");

    CHECK(refusal(kOnMachines, with_file(tokens / "vault")) ==
          "permission-denied: Vault: tokenFile " + (tokens / "vault").string() +
              " is not allowed; start the controller with --vault-token-dir and the directory of "
              "such files");

    RootRules rules = kOnMachines;
    rules.token_files_in = tokens.string();
    for (const auto& outside :
         {secret, tokens / "leads-out", tokens / ".." / "secret", tokens / "below/vault", tokens}) {
      CAPTURE(outside);
      CHECK(refusal(rules, with_file(outside)) ==
            "permission-denied: Vault: tokenFile " + outside.string() +
                " is not in --vault-token-dir " + tokens.string());
    }
    const std::string missing = (tokens / "missing").string();
    CHECK(refusal(rules, with_file(missing)) ==
          "permission-denied: Vault: tokenFile " + missing + ": No such file or directory");

    const RootRules same{.vault_hosts = rules.vault_hosts,
                         .token_files_in = (temporary.path() / "same").string()};
    for (const auto& inside : {tokens / "vault", tokens / "below/../vault",
                               temporary.path() / "leads-in", temporary.path() / "same/vault"}) {
      CAPTURE(inside);
      CHECK(Declared(rules, with_file(inside)).opened<VaultProvider>() == with_file(inside));
      CHECK(Declared(same, with_file(inside)).opened<VaultProvider>() == with_file(inside));
    }

    rules.token_files_in = (temporary.path() / "gone").string();
    CHECK(refusal(rules, with_file(tokens / "vault")) ==
          "permission-denied: Vault: --vault-token-dir " + rules.token_files_in +
              ": No such file or directory");
    rules.vault_hosts.clear();
    CHECK(refusal(rules, with_file(tokens / "vault")).find("host") != std::string::npos);
  }

  TEST_CASE("no token file is read on Kubernetes") {
    const testing::TemporaryDirectory temporary;
    std::ofstream(temporary.path() / "vault") << "s.token";
    RootRules rules = kOnKubernetes;
    rules.token_files_in = temporary.path().string();
    CHECK(refusal(rules, with_file(temporary.path() / "vault")) ==
          "permission-denied: Vault: tokenFile is for machines; use token.secretKeyRef or auth on "
          "Kubernetes");
  }

  TEST_CASE("a token is read from a Secret of the namespace that is allowed only") {
    CHECK(Declared(kOnKubernetes, with_secret("osm-system")).opened<VaultProvider>() ==
          with_secret("osm-system"));
    for (const char* other : {"kube-system", ""}) {
      CAPTURE(other);
      CHECK(refusal(kOnKubernetes, with_secret(other)) ==
            "invalid-argument: Vault: token.secretKeyRef.namespace: only a Secret of osm-system is "
            "read; put the token there");
    }
    for (const char* any : {"osm-system", ""}) {
      CAPTURE(any);
      CHECK(refusal(kOnMachines, with_secret(any)) ==
            "invalid-argument: Vault: token.secretKeyRef: the mesh is not on Kubernetes; use "
            "tokenFile");
    }
  }

  TEST_CASE("the key of the mesh's own CA is in a Secret of the namespace that is allowed only") {
    const TresorProvider own{.secret_name = "osm-ca-2", .secret_namespace = "osm-system"};
    CHECK(Declared(kOnKubernetes, own).opened<TresorProvider>() == own);
    CHECK(Declared(kOnKubernetes, TresorProvider{.secret_name = "osm-ca-2"})
              .opened<TresorProvider>() == own);
    CHECK(
        refusal(kOnKubernetes, TresorProvider{"osm-ca-2", "kube-system"}) ==
        "permission-denied: tresor.ca.secretRef.namespace: a CA's key is kept in osm-system only; "
        "name a Secret there");
    // No Secret is allowed: the opener does not learn its name, and keeps the key elsewhere.
    for (const TresorProvider& any : {own, TresorProvider{"osm-ca-2", "kube-system"}})
      CHECK(Declared({}, any).opened<TresorProvider>() == TresorProvider{});
  }

  TEST_CASE("an issuer of cert-manager needs no rule") {
    const CertManagerProvider issuer{.issuer_name = "osm-ca"};
    CHECK(Declared({}, issuer).opened<CertManagerProvider>() == issuer);
  }

  TEST_CASE("a replica does not start with a signing root that is no longer allowed") {
    Mesh mesh;
    mesh.record.text =
        root_rotation::to_text({{.name = "next",
                                 .state = root_rotation::RootState::kSigning,
                                 .bundle_pem = new_ca(mesh.clock)->trust_bundle_pem(),
                                 .trust_domain = kDomain}});
    mesh.spec.put(root_of(vault_at()));
    testing::ManualExecutor executor(mesh.clock);
    bool opened = false;
    const auto started = RootRotation::start(
        {.runtime = mesh.runtime(executor),
         .spec = mesh.spec,
         .record = mesh.record,
         .own = mesh.own,
         .open = [&](const AllowedRoot&) -> Result<std::shared_ptr<certificate::Issuer>> {
           opened = true;
           return new_ca(mesh.clock);
         },
         .trust_domain = kDomain});
    REQUIRE_FALSE(started.ok());
    CHECK(started.error().code == ErrorCode::kUnavailable);
    CHECK(started.error().message.find("host vault.example is not allowed") != std::string::npos);
    CHECK_FALSE(opened);
  }
}
