// Vault signs, renews tokens and refuses as the real one does.
//
// Answers of Vault's HTTP API that plugins/vault relies on.
#include <doctest/doctest.h>
#include <openssl/x509v3.h>

#include "certificate/x509.hpp"
#include "contract/vault_server.hpp"
#include "osm/certificate/request.hpp"

namespace osm::contract {
namespace {

using namespace std::chrono_literals;
namespace x509 = certificate::x509;
using openssl::X509Handle;

constexpr const char* kSign = "pki/sign/openservicemesh";

certificate::Subject workload() {
  return {.common_name = CommonName("bookstore.shop.cluster.local"),
          .spiffe_id = SpiffeId("spiffe://cluster.local/ns/shop/sa/bookstore")};
}

// A request to sign, as plugins/vault words it.
json::object signing(const certificate::Subject& subject, std::chrono::seconds ttl = 1h) {
  return {{"csr", certificate::make_request(subject).value().request_pem},
          {"common_name", subject.common_name.str()},
          {"uri_sans", subject.spiffe_id.str()},
          {"alt_names", subject.dns_names.empty() ? "" : subject.dns_names.front()},
          {"exclude_cn_from_sans", true},
          {"ttl", std::to_string(ttl.count()) + "s"},
          {"format", "pem"}};
}

std::string text_at(const json::object& map, const char* name) {
  REQUIRE_MESSAGE(map.contains(name), json::serialize(map));
  return json::value_to<std::string>(map.at(name));
}
std::int64_t number_at(const json::object& map, const char* name) {
  REQUIRE_MESSAGE(map.contains(name), json::serialize(map));
  return json::value_to<std::int64_t>(map.at(name));
}

// The alternative names of a certificate: "URI:spiffe://...", "DNS:...".
std::vector<std::string> names_of(X509& certificate) {
  std::vector<std::string> names;
  const openssl::Handle<GENERAL_NAMES, GENERAL_NAMES_free> all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all.get(), i);
    const bool uri = name->type == GEN_URI;
    CHECK((uri || name->type == GEN_DNS));
    const ASN1_IA5STRING* const text = uri ? name->d.uniformResourceIdentifier : name->d.dNSName;
    names.push_back((uri ? "URI:" : "DNS:") +
                    std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                                static_cast<std::size_t>(ASN1_STRING_length(text))));
  }
  return names;
}

void check_denied(const VaultAnswer& answer) {
  CHECK(answer.status == 403);
  CHECK_MESSAGE(answer.errors().find("permission denied") != std::string::npos, answer.errors());
}
void check_invalid(const VaultAnswer& answer) {
  CHECK(answer.status == 400);
  CHECK_FALSE(answer.errors().empty());
}

TEST_SUITE("Vault contract: the chain of the CA") {
  TEST_CASE("anybody may read the chain: the CA that signs, then the root") {
    const auto vault = make_vault();
    const VaultAnswer answer = vault->ask("pki/cert/ca_chain");
    REQUIRE(answer.status == 200);
    const auto chain = x509::parse_certificates(text_at(answer.map("data"), "certificate"));
    REQUIRE_MESSAGE(chain.ok(), chain.error().text());
    REQUIRE(chain->size() == 2);
    CHECK(X509_check_issued((*chain)[1].get(), (*chain)[0].get()) == X509_V_OK);
    CHECK(X509_self_signed((*chain)[1].get(), 1) == 1);
    CHECK(X509_self_signed((*chain)[0].get(), 1) == 0);
  }

  TEST_CASE("the chain of an unknown mount is denied") {
    const auto vault = make_vault();
    check_denied(vault->ask("nowhere/cert/ca_chain"));
  }
}

TEST_SUITE("Vault contract: signing") {
  TEST_CASE("a leaf has the names and the life that were asked for, and names its issuer") {
    const auto vault = make_vault();
    const auto subject = workload();
    const VaultAnswer answer = vault->ask(kSign, vault->make_token(), signing(subject, 90min));
    REQUIRE_MESSAGE(answer.status == 200, answer.errors());
    const std::string pem = text_at(answer.map("data"), "certificate");
    CHECK(pem.ends_with("-----END CERTIFICATE-----"));  // without an end of line
    const auto leaves = x509::parse_certificates(pem + "\n");
    REQUIRE(leaves.ok());
    REQUIRE(leaves->size() == 1);
    X509& leaf = *leaves->front();
    CHECK(names_of(leaf) == std::vector<std::string>{"URI:" + subject.spiffe_id.str()});
    CHECK(x509::not_before(leaf) <= vault->now());
    CHECK(x509::not_after(leaf) > vault->now() + 89min);
    CHECK(x509::not_after(leaf) < vault->now() + 91min);
    CHECK(X509_check_ca(&leaf) == 0);

    const auto issuer = x509::parse_certificate(text_at(answer.map("data"), "issuing_ca"));
    REQUIRE(issuer.ok());
    CHECK(X509_verify(&leaf, X509_get0_pubkey(issuer->get())) == 1);
    const auto chain = x509::parse_certificates(
        text_at(vault->ask("pki/cert/ca_chain").map("data"), "certificate"));
    REQUIRE(chain.ok());
    CHECK(x509::fingerprint(**issuer).value() == x509::fingerprint(*chain->front()).value());
  }

  TEST_CASE("a DNS name that is asked for stands in the leaf, the common name does not") {
    const auto vault = make_vault();
    const certificate::Subject webhook{
        .common_name = CommonName("osm-validator.osm-system.svc"),
        .spiffe_id = SpiffeId("spiffe://cluster.local/osm/webhook/osm-validator"),
        .usage = certificate::Usage::kWebhook,
        .dns_names = {"osm-validator.osm-system.svc"}};
    const VaultAnswer answer = vault->ask(kSign, vault->make_token(), signing(webhook));
    REQUIRE_MESSAGE(answer.status == 200, answer.errors());
    const auto leaf = x509::parse_certificate(text_at(answer.map("data"), "certificate") + "\n");
    REQUIRE(leaf.ok());
    auto names = names_of(**leaf);
    std::sort(names.begin(), names.end());
    CHECK(names == std::vector<std::string>{"DNS:osm-validator.osm-system.svc",
                                            "URI:" + webhook.spiffe_id.str()});
  }

  TEST_CASE("a request that cannot be signed is refused with 400 and a reason") {
    const auto vault = make_vault();
    const std::string token = vault->make_token();
    SUBCASE("no request") {
      json::object no_csr = signing(workload());
      no_csr["csr"] = "no request";
      check_invalid(vault->ask(kSign, token, no_csr));
    }
    SUBCASE("another trust domain") {
      certificate::Subject subject = workload();  // Vault takes the names of the CSR
      subject.spiffe_id = SpiffeId("spiffe://other.local/ns/shop/sa/bookstore");
      check_invalid(vault->ask(kSign, token, signing(subject)));
    }
    SUBCASE("no JSON") { check_invalid(vault->send(kSign, token, "no JSON")); }
    SUBCASE("longer than the CA lives, and no longer than the role allows") {
      check_invalid(vault->ask(kSign, token, signing(workload(), 43800h)));
    }
  }

  TEST_CASE("a token that is missing, invented, revoked, or lacks the policy is denied") {
    const auto vault = make_vault();
    check_denied(vault->ask(kSign, "", signing(workload())));
    check_denied(vault->ask(kSign, "hvs.invented", signing(workload())));
    const std::string token = vault->make_token();
    check_denied(vault->ask("pki/sign/other-role", token, signing(workload())));
    check_denied(vault->ask("nowhere/sign/openservicemesh", token, signing(workload())));
    vault->revoke(token);
    check_denied(vault->ask(kSign, token, signing(workload())));
  }
}

TEST_SUITE("Vault contract: tokens") {
  TEST_CASE("a token tells how long it lives, and lives as long again when it is renewed") {
    const auto vault = make_vault();
    const std::string token = vault->make_token({.life = 1h});
    const VaultAnswer told = vault->ask("auth/token/lookup-self", token);
    REQUIRE_MESSAGE(told.status == 200, told.errors());
    CHECK(number_at(told.map("data"), "ttl") <= 3600);
    CHECK(number_at(told.map("data"), "ttl") > 3500);
    CHECK(number_at(told.map("data"), "creation_ttl") == 3600);
    CHECK(told.map("data").at("renewable") == true);

    const VaultAnswer renewed = vault->ask("auth/token/renew-self", token, {{"increment", 3600}});
    REQUIRE_MESSAGE(renewed.status == 200, renewed.errors());
    CHECK(number_at(renewed.map("auth"), "lease_duration") == 3600);
    CHECK(renewed.map("auth").at("renewable") == true);
  }

  TEST_CASE("a periodic token tells its period") {
    const auto vault = make_vault();
    const VaultAnswer told =
        vault->ask("auth/token/lookup-self", vault->make_token({.life = 2h, .periodic = true}));
    REQUIRE_MESSAGE(told.status == 200, told.errors());
    CHECK(number_at(told.map("data"), "period") == 7200);
    CHECK(number_at(told.map("data"), "creation_ttl") == 7200);
  }

  TEST_CASE("a token that cannot be renewed says so, and its renewal is refused with 400") {
    const auto vault = make_vault();
    const std::string token = vault->make_token({.life = 1h, .renewable = false});
    CHECK(vault->ask("auth/token/lookup-self", token).map("data").at("renewable") == false);
    check_invalid(vault->ask("auth/token/renew-self", token, {{"increment", 3600}}));
  }

  TEST_CASE("a token without an end has a ttl of 0 and cannot be renewed") {
    const auto vault = make_vault();
    const std::string token = vault->endless_token();
    const VaultAnswer told = vault->ask("auth/token/lookup-self", token);
    REQUIRE_MESSAGE(told.status == 200, told.errors());
    CHECK(number_at(told.map("data"), "ttl") == 0);
    CHECK(number_at(told.map("data"), "creation_ttl") == 0);
    CHECK(!told.map("data").contains("renewable"));
    check_invalid(vault->ask("auth/token/renew-self", token, {{"increment", 3600}}));
  }

  TEST_CASE("an unknown token is denied") {
    const auto vault = make_vault();
    check_denied(vault->ask("auth/token/lookup-self", "hvs.invented"));
    check_denied(vault->ask("auth/token/renew-self", "hvs.invented", {{"increment", 60}}));
  }
}

TEST_SUITE("Vault contract: Kubernetes auth") {
  TEST_CASE("a ServiceAccount's token and a role are exchanged for a token that signs") {
    const auto vault = make_vault();
    const std::string jwt = vault->make_jwt();
    const VaultAnswer login =
        vault->ask("auth/kubernetes/login", "", {{"role", "mesh"}, {"jwt", jwt}});
    REQUIRE_MESSAGE(login.status == 200, login.errors());
    const std::string token = text_at(login.map("auth"), "client_token");
    CHECK(number_at(login.map("auth"), "lease_duration") == 3600);
    CHECK(login.map("auth").at("renewable") == true);
    CHECK(vault->ask(kSign, token, signing(workload())).status == 200);

    check_invalid(vault->ask("auth/kubernetes/login", "", {{"role", "other"}, {"jwt", jwt}}));
    const VaultAnswer no_jwt =
        vault->ask("auth/kubernetes/login", "", {{"role", "mesh"}, {"jwt", "no.such.token"}});
    CHECK(no_jwt.status == 403);
  }
}

TEST_SUITE("Vault contract: a sealed Vault") {
  TEST_CASE("every request is answered 503 until it is unsealed") {
    const auto vault = make_vault();
    const std::string token = vault->make_token();
    vault->seal();
    for (const VaultAnswer& answer :
         {vault->ask("pki/cert/ca_chain"), vault->ask(kSign, token, signing(workload())),
          vault->ask("auth/token/lookup-self", token)}) {
      CHECK(answer.status == 503);
      CHECK(answer.errors().find("Vault is sealed") != std::string::npos);
    }
    vault->unseal();
    CHECK(vault->ask(kSign, token, signing(workload())).status == 200);
  }
}

}  // namespace
}  // namespace osm::contract
