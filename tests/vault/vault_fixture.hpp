// An issuer on a manual clock and executor over a fake Vault.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "lib/run.hpp"
#include "net/io_fixture.hpp"
#include "osm/certificate/request.hpp"
#include "osm/certificate/vault.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "vault/fake_vault.hpp"

namespace osm::vault::testing {

using namespace std::chrono_literals;
using certificate::Subject;

inline constexpr const char* kToken = "hvs.first-token-of-the-mesh";
inline constexpr const char* kOther = "hvs.other-token-of-the-mesh";

inline Subject workload(const std::string& name) {
  return {.common_name = CommonName(name + ".default.cluster.local"),
          .spiffe_id = SpiffeId("spiffe://cluster.local/ns/default/sa/" + name)};
}

struct VaultFixture {
  VaultFixture() {
    vault.tokens[kToken] = {};
    vault.tokens[kOther] = {};
  }
  ~VaultFixture() { issuer.reset(); }

  IssuerOptions options() {
    return {.address = vault.address(),
            .ca_pem = [pem = vault.tls_ca().root_pem()] { return pem; },
            .token = [this] { return token(); },
            .start_timeout = 0ms,
            .io = io.executor,
            .runtime = {executor, executor, clock, rng, log, metrics}};
  }
  IssuerOptions kubernetes_options() {
    IssuerOptions options = this->options();
    options.token = nullptr;
    options.kubernetes = KubernetesLogin{.role = "mesh", .jwt = [this] { return token(); }};
    return options;
  }
  void start(const IssuerOptions& with) {
    auto made = make_vault_issuer(with);
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    issuer = *std::move(made);
    executor.run_until_idle();
  }
  void start() { start(options()); }

  // Content of the token's source. Thread: any.
  Result<std::string> token() const {
    const std::lock_guard lock(token_mutex);
    return held_token;
  }
  void put_token(const std::string& text) {
    const std::lock_guard lock(token_mutex);
    held_token = text;
  }

  Result<std::string> sign(const std::string& name = "bookstore",
                           std::chrono::seconds validity = 1h) {
    const Subject subject = workload(name);
    auto request = certificate::make_request(subject);
    REQUIRE(request.ok());
    return issuer->sign({subject, request->request_pem, validity});
  }
  Error refused(const std::string& name = "bookstore") {
    const auto answer = sign(name);
    REQUIRE_FALSE(answer.ok());
    return answer.error();
  }
  // The body of the newest request to sign.
  std::string asked(const char* field) const {
    const auto requests = vault.seen("/sign/");
    REQUIRE_FALSE(requests.empty());
    return std::string(requests.back().body.at(field).as_string());
  }

  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng{osm::testing::seed()};
  mutable std::mutex token_mutex;
  std::string held_token = kToken;
  FakeVault vault{clock};
  net::IoThreads io{1};
  std::unique_ptr<certificate::Issuer> issuer;
};

inline bool contains(const std::string& text, std::string_view part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace osm::vault::testing
