// Vault's certificates pass all checks, and a changed CA is announced.
#include <doctest/doctest.h>

#include <atomic>

#include "osm/certificate/make_manager.hpp"
#include "vault/vault_fixture.hpp"

using namespace osm;
using namespace osm::vault;

namespace {

using namespace vault::testing;

certificate::ManagerOptions manager_options(VaultFixture& f) {
  return {.issuer = std::move(f.issuer),
          .runtime = {f.executor, f.executor, f.clock, f.rng, f.log, f.metrics}};
}

TEST_SUITE("vault::make_vault_issuer: signing") {
  TEST_CASE("Vault's certificates pass the manager's checks, below its chain's root") {
    VaultFixture f;
    f.start();
    CHECK(f.issuer->trust_bundle_pem() == f.vault.root_pem());
    CHECK(f.issuer->id().starts_with("vault:"));
    CHECK(f.issuer->id().size() == 6 + 64);
    const auto manager = certificate::make_manager(manager_options(f));
    const auto issued = manager->issue_certificate(workload("bookstore"), 1h);
    REQUIRE_MESSAGE(issued.ok(), issued.error().text());
    CHECK(manager->trust_bundle_pem() == f.vault.root_pem());
    CHECK((*issued)->chain_pem.ends_with(f.vault.intermediate_pem()));
    CHECK((*issued)->subject.spiffe_id.str() == "spiffe://cluster.local/ns/default/sa/bookstore");
  }

  TEST_CASE("a request says every name and its life in seconds, and only it shows the token") {
    VaultFixture f;
    IssuerOptions options = f.options();
    options.vault_namespace = "team/mesh";
    f.start(options);
    const Subject webhook{.common_name = CommonName("osm-validator.osm-system.svc"),
                          .spiffe_id = SpiffeId("spiffe://cluster.local/osm/webhook/osm-validator"),
                          .usage = certificate::Usage::kWebhook,
                          .dns_names = {"osm-validator.osm-system.svc"}};
    const auto request = certificate::make_request(webhook);
    REQUIRE(f.issuer->sign({webhook, request->request_pem, 90min}).ok());
    CHECK(f.asked("ttl") == "5400s");
    CHECK(f.asked("csr") == request->request_pem);
    CHECK(f.asked("common_name") == "osm-validator.osm-system.svc");
    CHECK(f.asked("uri_sans") == "spiffe://cluster.local/osm/webhook/osm-validator");
    CHECK(f.asked("alt_names") == "osm-validator.osm-system.svc");
    CHECK(f.vault.seen("/sign/").back().body.at("exclude_cn_from_sans") == true);
    for (const Seen& seen : f.vault.seen()) {
      CHECK(seen.ns == "team/mesh");
      CHECK_MESSAGE(seen.token == (contains(seen.line, "ca_chain") ? "" : kToken), seen.line);
    }
  }

  TEST_CASE("no request goes beyond the end of the CA, and none follows that end") {
    VaultFixture f;
    f.start();
    const auto left =
        std::chrono::floor<std::chrono::seconds>(f.issuer->not_after() - f.clock.wall_now());
    CHECK(left == 24h * 364);
    REQUIRE(f.sign("bookstore", 24h * 3650).ok());
    CHECK(f.asked("ttl") == std::to_string((left - 60s).count()) + "s");
    f.clock.set_wall(f.issuer->not_after());
    CHECK(f.refused().code == ErrorCode::kCertificateExpired);
    CHECK(f.vault.asked("/sign/") == 1);
    CHECK(f.issuer->health().ok());
  }

  TEST_CASE("a certificate that Vault ends earlier than was asked is used until then") {
    VaultFixture f;
    f.start();
    {
      const auto held = f.vault.lock();
      f.vault.meddle = [](Seen& seen) -> std::optional<Answer> {
        if (seen.line.find("/sign/") != std::string::npos) seen.body["ttl"] = "600s";  // max_ttl
        return std::nullopt;
      };
    }
    const auto manager = certificate::make_manager(manager_options(f));
    const auto issued = manager->issue_certificate(workload("bookstore"), 48h);
    REQUIRE_MESSAGE(issued.ok(), issued.error().text());
    CHECK((*issued)->not_after <= f.clock.wall_now() + 600s);
  }

  TEST_CASE("another CA of the mount is announced within a minute, and when it has signed") {
    VaultFixture f;
    f.start();
    std::atomic<int> told{0};
    const auto subscription = f.issuer->subscribe([&] { ++told; });
    const std::string before = f.issuer->id();
    f.executor.run_for(2min);
    CHECK(told == 0);
    f.vault.set_ca(make_ca("next root", f.clock.wall_now()), FakeVault::below(f.vault.root));
    // A chain that does not belong together is nothing of this room's: the manager refuses leaves.
    f.executor.run_for(1min);
    CHECK(told == 1);
    CHECK(f.issuer->id() != before);
    CHECK(f.issuer->trust_bundle_pem() == f.vault.root_pem());

    auto root = make_ca("third root", f.clock.wall_now());
    auto intermediate = FakeVault::below(root);
    f.vault.set_ca(std::move(root), std::move(intermediate));
    REQUIRE(f.sign().ok());  // tells which CA signed it
    f.executor.run_until_idle();
    CHECK(told == 2);
    CHECK(f.issuer->trust_bundle_pem() == f.vault.root_pem());
  }

  TEST_CASE("a role that signs with another issuer than the mount's is refused, with the remedy") {
    VaultFixture f;
    f.start();
    const std::string told = json::serialize(
        json::object{{"data", {{"certificate", f.vault.intermediate_pem() + f.vault.root_pem()}}}});
    {
      const auto held = f.vault.lock();
      f.vault.meddle = [=](const Seen& seen) -> std::optional<Answer> {
        if (seen.line.find("ca_chain") == std::string::npos) return std::nullopt;
        return Answer{200, told};
      };
    }
    auto root = make_ca("another", f.clock.wall_now());
    auto intermediate = FakeVault::below(root);
    f.vault.set_ca(std::move(root), std::move(intermediate));
    const Error error = f.refused();
    CHECK(error.code == ErrorCode::kInvalidCertificate);
    CHECK(contains(error.message, "issuer_ref"));
  }

  TEST_CASE(
      "while Vault is away the manager's certificates stay, and are renewed once it is back") {
    VaultFixture f;
    f.start();
    const auto manager = certificate::make_manager(manager_options(f));
    const auto first = manager->issue_certificate(workload("bookstore"), 48h);
    REQUIRE_MESSAGE(first.ok(), first.error().text());
    f.vault.answer_everything(503, "Vault is sealed");
    f.executor.run_for(40h);
    const auto held = manager->issue_certificate(workload("bookstore"), 48h);
    REQUIRE(held.ok());
    CHECK((*held)->fingerprint == (*first)->fingerprint);
    CHECK(f.log.count("certificate not renewed") == 1);
    CHECK(f.log.count("Vault does not sign") == 1);
    f.vault.answer_as_usual();
    f.executor.run_for(6min);  // the manager's longest pause is five
    CHECK(manager->list_certificates().front()->fingerprint != (*first)->fingerprint);
    CHECK(f.log.count("Vault answers again") == 1);
    CHECK(f.metrics.value("osm_vault_healthy") == 1);
  }
}

}  // namespace
