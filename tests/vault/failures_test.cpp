// Refusals and outages of Vault become typed errors, health and back-off.
#include <doctest/doctest.h>

#include "vault/vault_fixture.hpp"

using namespace osm;
using namespace osm::vault;

namespace {

using namespace vault::testing;

TEST_SUITE("vault::make_vault_issuer: failures") {
  TEST_CASE("a refusal of Vault becomes a typed error with its text, and health shows it") {
    struct Expected {
      int status;
      const char* words;
      ErrorCode code;
      const char* said;
    };
    for (const Expected& expected : {
             Expected{503, "Vault is sealed", ErrorCode::kUnavailable, "vault operator unseal"},
             {403, "1 error occurred:\n\t* permission denied\n\n", ErrorCode::kPermissionDenied,
              "1 error occurred: * permission denied; give a token"},
             {429, "request path \"pki\": rate limit quota exceeded", ErrorCode::kUnavailable,
              "rate limit quota exceeded"},
             {472, "", ErrorCode::kUnavailable, "standby"},
             {473, "", ErrorCode::kUnavailable, "standby"},
             {307, "", ErrorCode::kUnavailable, "standby"},
             {412, "required index state not present", ErrorCode::kUnavailable, "index state"},
             {500, "internal error", ErrorCode::kUnavailable, "internal error"},
             {502, "", ErrorCode::kUnavailable, "answered 502"},
             {418, "", ErrorCode::kInternal, "answered 418"},
         }) {
      CAPTURE(expected.status);
      VaultFixture f;
      f.start();
      f.vault.answer_everything(expected.status, expected.words);
      const Error error = f.refused();
      CHECK(error.code == expected.code);
      CHECK(contains(error.message, expected.said));
      CHECK(contains(error.message, f.vault.address().str()));
      REQUIRE_FALSE(f.issuer->health().ok());
      CHECK(f.issuer->health().error().code == expected.code);
      CHECK(f.metrics.value("osm_vault_healthy") == 0);
      CHECK(f.log.count("Vault does not sign") == 1);
    }
  }

  TEST_CASE("a name that the role does not allow fails only that request") {
    VaultFixture f;
    f.start();
    {
      const auto held = f.vault.lock();
      f.vault.meddle = [](const Seen& seen) -> std::optional<Answer> {
        const auto* name = seen.body.if_contains("common_name");
        if (!name || name->as_string().find("other") == std::string::npos) return std::nullopt;
        return refusal(400, "common name other.default.cluster.local not allowed by this role");
      };
    }
    const Error error = f.refused("other");
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK(contains(error.message, "not allowed by this role; docs/certificates.md has the role"));
    CHECK(f.issuer->health().ok());
    CHECK(f.sign().ok());
  }

  TEST_CASE("a Vault in trouble is asked again after a growing, random while, and not before") {
    VaultFixture f;
    f.start();
    f.vault.answer_everything(503, "Vault is sealed");
    CHECK(f.refused().code == ErrorCode::kUnavailable);
    std::chrono::nanoseconds before{};
    for (int attempt = 1; attempt <= 10; ++attempt) {
      CAPTURE(attempt);
      const std::size_t asked = f.vault.asked();
      const SteadyTime since = f.clock.steady_now();
      while (f.vault.asked() == asked) {
        const Error error = f.refused();
        CHECK(error.code == ErrorCode::kUnavailable);
        CHECK(contains(error.message, "Vault is sealed"));
        if (f.vault.asked() == asked) {
          CHECK(contains(error.message, "asked again in"));
          f.clock.advance(100ms);
        }
        REQUIRE(f.clock.steady_now() - since < 2min);
      }
      CHECK(f.vault.asked() == asked + 1);
      const auto paused = f.clock.steady_now() - since;
      const auto whole = std::min<std::chrono::nanoseconds>(1s * (1 << (attempt - 1)), 1min);
      CHECK(paused >= whole / 2 - 100ms);
      CHECK(paused <= whole + 100ms);
      before = paused;
    }
    CHECK(before >= 30s);
    f.vault.answer_as_usual();
    f.clock.advance(1min);
    CHECK(f.sign().ok());
    CHECK(f.issuer->health().ok());
    CHECK(f.sign().ok());
  }

  TEST_CASE("health notices by itself that Vault is away, and that it is back") {
    VaultFixture f;
    f.start();
    f.vault.answer_everything(503, "Vault is sealed");
    f.executor.run_for(1min);
    REQUIRE_FALSE(f.issuer->health().ok());
    CHECK(f.refused().code == ErrorCode::kUnavailable);
    f.vault.answer_as_usual();
    f.executor.run_for(15s);
    CHECK(f.issuer->health().ok());
    CHECK(f.sign().ok());
  }

  TEST_CASE("a token that may not sign is reported until it may, however well Vault is else") {
    VaultFixture f;
    f.start();
    {
      const auto held = f.vault.lock();
      f.vault.meddle = [](const Seen& seen) -> std::optional<Answer> {
        if (seen.line.find("/sign/") == std::string::npos) return std::nullopt;
        return refusal(403, "permission denied");
      };
    }
    CHECK(f.refused().code == ErrorCode::kPermissionDenied);
    f.executor.run_for(10min);
    CHECK_FALSE(f.issuer->health().ok());
    CHECK(f.log.count("Vault answers again") == 0);
    f.vault.answer_as_usual();
    CHECK(f.sign().ok());
    CHECK(f.issuer->health().ok());
  }

  TEST_CASE("an answer that is not Vault's is an error") {
    const auto data = [](const char* name, json::value value) {
      return json::serialize(json::object{{"data", {{name, std::move(value)}}}});
    };
    for (const std::string& body :
         {std::string(), std::string("<html>"), std::string("[]"), std::string("{}"),
          std::string("{\"data\":7}"), data("certificate", 7), data("certificate", "x"),
          std::string(900, '['), data("issuing_ca", "-----BEGIN CERTIFICATE-----\nAAAA\n")}) {
      CAPTURE(body);
      VaultFixture f;
      f.start();
      {
        const auto held = f.vault.lock();
        f.vault.meddle = [&](const Seen&) { return Answer{200, body}; };
      }
      CHECK(f.refused().code == ErrorCode::kInternal);
      f.executor.run_for(2min);  // the chain, and the token's life, are answered so as well
      CHECK_FALSE(f.issuer->health().ok());
      CHECK(f.issuer->trust_bundle_pem() == f.vault.root_pem());
    }
  }

  TEST_CASE("an answer of many megabytes is not read") {
    VaultFixture f;
    f.start();
    {
      const auto held = f.vault.lock();
      f.vault.meddle = [](const Seen&) { return Answer{200, std::string(8 << 20, ' ')}; };
    }
    CHECK(f.refused().code == ErrorCode::kTooLarge);
  }

  TEST_CASE("a Vault that does not answer is waited for no longer than the deadline") {
    VaultFixture f;
    net::ScriptedServer silent([](net::Peer& peer) { peer.wait_for_close(); });
    IssuerOptions options = f.options();
    options.address = silent.address();
    options.deadline = 200ms;
    const auto made = make_vault_issuer(options);
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::kUnavailable);
  }

  TEST_CASE("an unverified Vault gets no token") {
    VaultFixture f;
    IssuerOptions options = f.options();
    const net::TestCa other;
    options.ca_pem = [pem = other.root_pem()] { return pem; };
    auto made = make_vault_issuer(options);
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::kUnavailable);
    CHECK(contains(made.error().message, "certificate"));
    options.ca_pem = [] { return std::string(); };  // is not everybody the system trusts
    made = make_vault_issuer(options);
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::kInvalidCertificate);
    CHECK(f.vault.asked() == 0);
  }

  TEST_CASE("the issuer waits for a starting Vault, and fails with the reason") {
    VaultFixture f;
    f.vault.answer_everything(503, "Vault is sealed");
    auto made = make_vault_issuer(f.options());
    REQUIRE_FALSE(made.ok());
    CHECK(contains(made.error().message, "Vault is sealed"));
    {
      const auto held = f.vault.lock();
      f.vault.meddle = [left = 3](const Seen&) mutable -> std::optional<Answer> {
        if (left-- > 0) return refusal(503, "Vault is sealed");
        return std::nullopt;
      };
    }
    IssuerOptions options = f.options();
    options.start_timeout = 30s;
    f.start(options);
    CHECK(f.sign().ok());
    // A refusal is not waited for.
    f.put_token("hvs.nobodys");
    made = make_vault_issuer(options);
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::kPermissionDenied);
  }

  TEST_CASE("a mount that is not there, which Vault calls denied, is told from a token that is") {
    VaultFixture f;
    f.vault.answer_everything(403, "permission denied");
    const auto made = make_vault_issuer(f.options());
    REQUIRE_FALSE(made.ok());
    CHECK(contains(made.error().message, "check the mount"));
  }

  TEST_CASE("a chain without its root is refused, naming the certificate to import") {
    VaultFixture f;
    {
      const auto held = f.vault.lock();
      f.vault.meddle = [pem = f.vault.intermediate.pem()](const Seen&) -> std::optional<Answer> {
        return Answer{200, json::serialize(json::object{{"data", {{"certificate", pem}}}})};
      };
    }
    const auto made = make_vault_issuer(f.options());
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::kInvalidCertificate);
    CHECK(contains(made.error().message, "CN=root"));
    CHECK(contains(made.error().message, "issuers/import"));
  }

  TEST_CASE("options that make no sense are refused by name, before anybody is asked") {
    VaultFixture f;
    const auto refused = [&](const auto& change, std::string_view said) {
      IssuerOptions options = f.options();
      change(options);
      const auto made = make_vault_issuer(options);
      REQUIRE_FALSE(made.ok());
      CHECK(made.error().code == ErrorCode::kInvalidArgument);
      CHECK(contains(made.error().message, said));
    };
    using O = IssuerOptions;
    refused([](O& o) { o.tls = false, o.address.host = "10.0.0.5"; }, "plain HTTP");
    refused([](O& o) { o.tls = false, o.address.host = "127.0.0.1.example"; }, "plain HTTP");
    refused([](O& o) { o.address.host = ""; }, "address");
    refused([](O& o) { o.address.port = 0; }, "address");
    refused([](O& o) { o.mount = "pki/../sys"; }, "mount");
    refused([](O& o) { o.mount = "/pki"; }, "mount");
    refused([](O& o) { o.role = "a b"; }, "role");
    refused([](O& o) { o.vault_namespace = "a\r\nX-Other: b"; }, "namespace");
    refused([](O& o) { o.token = nullptr; }, "login");
    refused([&](O& o) { o.kubernetes = f.kubernetes_options().kubernetes; }, "login");
    CHECK(f.vault.asked() == 0);
  }
}

}  // namespace
