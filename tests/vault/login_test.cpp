// Tokens are renewed, replaced and logged in for, and never shown.
#include <doctest/doctest.h>

#include <fstream>

#include "lib/temporary_directory.hpp"
#include "vault/vault_fixture.hpp"

using namespace osm;
using namespace osm::vault;

namespace {

using namespace vault::testing;

// Lets time pass for Vault's tokens as for everybody.
void let_pass(VaultFixture& f, std::chrono::minutes time) {
  for (std::chrono::minutes each{0}; each < time; ++each) {
    {
      const auto held = f.vault.lock();
      for (auto& [name, token] : f.vault.tokens)
        if (token.left > 0s) token.left = std::max<std::chrono::seconds>(1s, token.left - 1min);
    }
    f.executor.run_for(1min);
  }
}

TEST_SUITE("vault::Login with a token") {
  TEST_CASE("a token is renewed in the third quarter of its life") {
    VaultFixture f;
    f.vault.tokens[kToken] = {.left = 1h, .whole = 1h};
    f.start();
    let_pass(f, 29min);
    CHECK(f.vault.asked("renew-self") == 0);
    let_pass(f, 18min);
    CHECK(f.vault.asked("renew-self") == 1);
    CHECK(f.metrics.value("osm_vault_token_expiry_seconds") > 2400);
    let_pass(f, 60min);
    CHECK(f.vault.asked("renew-self") >= 2);
    CHECK(f.vault.asked("renew-self") <= 3);
    CHECK(f.sign().ok());
  }

  TEST_CASE("a token that ends soon, whatever is done, is named once while there is time") {
    VaultFixture f;
    f.vault.tokens[kToken] = {.left = 1h, .whole = 1h, .renewed_for = 10min};  // its longest life
    f.start();
    let_pass(f, 55min);
    CHECK(f.log.count("put another in its place") == 1);
    CHECK(f.issuer->health().ok());  // it still signs
    CHECK(f.sign().ok());
  }

  TEST_CASE("a token that cannot be renewed is never renewed") {
    VaultFixture f;
    f.vault.tokens[kToken] = {.left = 1h, .whole = 1h, .renewable = false};
    f.start();
    let_pass(f, 55min);
    CHECK(f.vault.asked("renew-self") == 0);
    CHECK(f.log.count("put another in its place") == 1);
  }

  TEST_CASE("a token that was put in place of the old one is used from the next minute on") {
    VaultFixture f;
    f.start();
    f.put_token(std::string(kOther) + "\n");
    f.executor.run_for(1min);
    CHECK(f.sign().ok());
    CHECK(f.vault.seen("/sign/").back().token == kOther);
  }

  TEST_CASE("a token that was revoked is reported; one that is there already is used at once") {
    VaultFixture f;
    f.start();
    REQUIRE(f.sign().ok());
    {
      const auto held = f.vault.lock();
      f.vault.tokens.erase(kToken);
    }
    SUBCASE("there is no other") {
      f.executor.run_for(1min);
      REQUIRE_FALSE(f.issuer->health().ok());
      CHECK(f.issuer->health().error().code == ErrorCode::kPermissionDenied);
      CHECK(f.refused().code == ErrorCode::kPermissionDenied);
      f.put_token(kOther);
      f.executor.run_for(1min);
      CHECK(f.issuer->health().ok());
      CHECK(f.sign().ok());
    }
    SUBCASE("nor when it signs") {
      const Error error = f.refused();
      CHECK(error.code == ErrorCode::kPermissionDenied);
      CHECK(contains(error.message, "give a token that is valid"));
      CHECK(f.vault.asked("/sign/") == 2);  // the same one is not shown twice
      f.put_token(kOther);
      f.executor.run_for(1min);
      CHECK(f.issuer->health().ok());
      CHECK(f.sign().ok());
    }
    SUBCASE("there is") {
      f.put_token(kOther);
      CHECK(f.sign().ok());
      CHECK(f.issuer->health().ok());
    }
  }

  TEST_CASE("an invalid token is refused without quoting it") {
    for (const std::string& text :
         {std::string(), std::string("\n"), std::string("two words"), std::string("a\r\nX: b"),
          std::string("caf\xc3\xa9"), std::string(20000, 'x')}) {
      VaultFixture f;
      f.put_token(text);
      const auto made = make_vault_issuer(f.options());
      REQUIRE_FALSE(made.ok());
      CHECK(made.error().code == ErrorCode::kUnreadableSource);
      if (text.size() > 1) CHECK(made.error().message.find(text) == std::string::npos);
      for (const Seen& seen : f.vault.seen()) CHECK(seen.token.empty());
    }
  }

  TEST_CASE("a file is read again and again; one that cannot be read is named") {
    const osm::testing::TemporaryDirectory folder;
    const Source source = from_file(folder.file("token"));
    auto read = source();
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrorCode::kUnreadableSource);
    CHECK(contains(read.error().message, folder.file("token")));
    std::ofstream(folder.file("token")) << "one\n";
    CHECK(source().value() == "one\n");
    std::ofstream(folder.file("token")) << "two";
    CHECK(source().value() == "two");
    CHECK_FALSE(from_file(folder.path().string())().ok());
  }
}

TEST_SUITE("vault::Login by Kubernetes auth") {
  constexpr const char* kJwt = "eyJhbGciOiJSUzI1NiJ9.first.signature";
  constexpr const char* kNextJwt = "eyJhbGciOiJSUzI1NiJ9.next.signature";

  struct KubernetesFixture : VaultFixture {
    KubernetesFixture() {
      vault.tokens.clear();
      vault.logins = {{kJwt, kToken}, {kNextJwt, kOther}};
      put_token(kJwt);
      start(kubernetes_options());
    }
    void forget(const char* token) {
      const auto held = vault.lock();
      vault.tokens.erase(token);
    }
  };

  TEST_CASE("the ServiceAccount's token and a role are exchanged for one of Vault's") {
    KubernetesFixture f;
    CHECK(f.sign().ok());
    const auto logins = f.vault.seen("auth/kubernetes/login");
    REQUIRE(logins.size() == 1);
    CHECK(logins.front().body.at("role") == "mesh");
    CHECK(logins.front().body.at("jwt") == kJwt);
    CHECK(logins.front().token.empty());
    CHECK(f.vault.seen("/sign/").back().token == kToken);
  }

  TEST_CASE("its token is renewed, not logged in for again") {
    KubernetesFixture f;
    let_pass(f, 300min);
    CHECK(f.vault.asked("renew-self") >= 6);
    CHECK(f.vault.asked("auth/kubernetes/login") == 1);
  }

  TEST_CASE("a lost token is replaced by a login with the file's present content") {
    KubernetesFixture f;
    f.put_token(kNextJwt);
    f.forget(kToken);
    SUBCASE("when it is to sign") {
      CHECK(f.sign().ok());
      CHECK(f.vault.seen("/sign/").back().token == kOther);
    }
    SUBCASE("when it is looked after") {
      f.executor.run_for(1min);
      CHECK(f.vault.asked("auth/kubernetes/login") == 2);
      CHECK(f.issuer->health().ok());
    }
  }

  TEST_CASE("so is one that has reached its longest life, before it ends") {
    KubernetesFixture f;
    {
      const auto held = f.vault.lock();
      f.vault.tokens[kToken] = {.left = 1h, .whole = 1h, .renewed_for = 5min};
    }
    f.put_token(kNextJwt);
    let_pass(f, 50min);
    CHECK(f.vault.asked("auth/kubernetes/login") == 2);
    CHECK(f.log.count("put another in its place") == 0);
    CHECK(f.sign().ok());
    CHECK(f.vault.seen("/sign/").back().token == kOther);
  }

  TEST_CASE("a login that is refused is reported, and tried again only after a while") {
    KubernetesFixture f;
    f.forget(kToken);
    f.put_token("eyJhbGciOiJSUzI1NiJ9.nobody.signature");
    CHECK(f.refused().code == ErrorCode::kPermissionDenied);
    const std::size_t asked = f.vault.asked();
    CHECK(f.refused().code == ErrorCode::kPermissionDenied);
    CHECK(f.vault.asked() == asked);
    REQUIRE_FALSE(f.issuer->health().ok());
    CHECK(contains(f.issuer->health().error().message, "auth/kubernetes/login"));
    f.put_token(kNextJwt);
    f.executor.run_for(1min);
    CHECK(f.issuer->health().ok());
    CHECK(f.sign().ok());
  }
}

TEST_SUITE("vault: secrets") {
  TEST_CASE("no token is in any error or log line, though the server repeats all it was sent") {
    const std::string jwt = "eyJhbGciOiJSUzI1NiJ9.first.signature";
    for (const bool kubernetes : {false, true}) {
      VaultFixture f;
      f.vault.logins = {{jwt, kOther}};
      f.put_token(kubernetes ? jwt : kToken);
      f.start(kubernetes ? f.kubernetes_options() : f.options());
      REQUIRE(f.sign().ok());
      std::string said;
      for (const int status : {400, 403, 404, 500, 503, 418}) {
        {
          const auto held = f.vault.lock();
          f.vault.meddle = [status](const Seen& seen) -> std::optional<Answer> {
            const std::string all =
                seen.token + ' ' + json::serialize(seen.body) + ' ' + seen.token;
            // Also where what is quoted is cut.
            return refusal(status, std::string(290, 'x') + all + std::string(3, 'y') + all);
          };
        }
        f.clock.advance(2min);
        said += f.refused().text() + '\n';
        f.executor.run_for(2min);
        if (const Status health = f.issuer->health(); !health.ok()) said += health.error().text();
      }
      for (const auto& line : f.log.lines()) said += line.text() + '\n';
      for (const std::string& secret : {std::string(kToken), std::string(kOther), jwt})
        for (std::size_t at = 0; at + 8 <= secret.size(); ++at)
          CHECK_MESSAGE(said.find(secret.substr(at, 8)) == std::string::npos, secret.substr(at, 8));
    }
  }
}

}  // namespace
