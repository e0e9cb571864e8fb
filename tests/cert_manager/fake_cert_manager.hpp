// cert-manager on an API server in memory: whenever somebody waits, it answers the requests that
// are there, as a real one does or as a test wants. tests/contract/cert_manager_contract.cpp holds
// it to a real one.
#pragma once

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.hpp"
#include "cert_manager/requester.hpp"
#include "certificate/local_issuer.hpp"
#include "certificate/x509.hpp"
#include "kubernetes/client/memory_api.hpp"
#include "osm/certificate/request.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

namespace osm::cert_manager_test {

namespace json = boost::json;
using namespace std::chrono_literals;

inline constexpr kubernetes::Resource kRequests{"cert-manager.io", "v1", "certificaterequests",
                                                "CertificateRequest"};

inline json::object condition(const char* type, const char* status, const char* reason = "",
                              const std::string& message = "") {
  return {{"type", type}, {"status", status}, {"reason", reason}, {"message", message}};
}

// A CA whose certificate can be renewed over its key.
class Authority {
 public:
  explicit Authority(const Clock& clock) : clock_(clock) {
    key_ = certificate::x509::generate_key({}).value();
    renew();
  }
  void renew() {
    const openssl::CleanErrorQueue clean;
    const WallTime now = clock_.wall_now();
    const auto root = certificate::x509::make_root(*key_, {now - 10min, now + 24h * 365}).value();
    root_pem_ = certificate::x509::to_pem(*root).value();
    auto issuer =
        certificate::make_local_issuer(certificate::x509::to_pem(*key_).value().pem() + root_pem_,
                                       TrustDomain("cluster.local"), clock_);
    REQUIRE_MESSAGE(issuer.ok(), issuer.error().text());
    issuer_ = *std::move(issuer);
  }
  const std::string& root_pem() const { return root_pem_; }
  // The subject is one of these.
  std::string sign(const std::string& request_pem,
                   const std::vector<certificate::Subject>& subjects,
                   std::chrono::seconds validity) const {
    for (const certificate::Subject& subject : subjects) {
      if (!certificate::check_request(subject, request_pem).ok()) continue;
      const auto chain = issuer_->sign({subject, request_pem, validity});
      REQUIRE_MESSAGE(chain.ok(), chain.error().text());
      return *chain;
    }
    FAIL("nobody asked for this");
    return "";
  }

 private:
  const Clock& clock_;
  openssl::Key key_;
  std::string root_pem_;
  std::unique_ptr<certificate::Issuer> issuer_;
};

// No two words are the same.
class CountingRng final : public Rng {
 public:
  std::uint64_t next() override { return ++last_; }

 private:
  std::uint64_t last_ = 0;
};

struct FakeCertManager {
  // The status that a request gets which is not answered yet; nullopt: none.
  using Act = std::function<std::optional<json::object>(const json::object& request)>;

  FakeCertManager() {
    act = [this](const json::object& request) { return answer(request); };
  }

  // -- what it does --

  // As a real one: the decision of an approver first, then the issuer's.
  std::optional<json::object> answer(const json::object& request) {
    const json::object denied = condition_of(request, "Denied");
    if (!denied.empty())
      return failed({denied}, "Denied",
                    "The CertificateRequest was denied by an approval controller");
    json::object approved = condition_of(request, "Approved");
    if (approved.empty() && !approves) return std::nullopt;
    if (approved.empty()) approved = approval();
    const json::object& spec = request.at("spec").as_object();
    const json::object& issuer = spec.at("issuerRef").as_object();
    if (issuer.at("name") != "osm-ca") {
      const std::string kind(issuer.at("kind").as_string());
      const std::string why = "Referenced \"" + kind + "\" not found";
      return json::object{
          {"conditions", json::array{approved, condition("Ready", "False", "Pending", why)}}};
    }
    const auto pem = from_base64(std::string(spec.at("request").as_string()));
    if (!pem || !certificate::x509::parse_request(*pem).ok())
      return failed({approved}, "Failed",
                    "Failed to decode CSR in spec.request: error decoding certificate request");
    json::object status = issued(request, authority);
    status["conditions"].as_array().at(0) = approved;
    return status;
  }

  json::object issued(const json::object& request, const Authority& by, bool tells_ca = true) {
    const json::object& spec = request.at("spec").as_object();
    const std::string duration(spec.at("duration").as_string());
    const std::string chain =
        by.sign(from_base64(std::string(spec.at("request").as_string())).value(),
                {init_subject, subject}, std::chrono::seconds(std::stol(duration)));
    json::object status{
        {"conditions",
         json::array{approval(), condition("Ready", "True", "Issued",
                                           "Certificate fetched from issuer successfully")}},
        {"certificate", base64(chain)}};
    if (tells_ca) status["ca"] = base64(by.root_pem());
    return status;
  }
  static json::object with(json::object one) {
    return {{"conditions", json::array{std::move(one)}}};
  }
  static json::object approval() {
    return condition("Approved", "True", "cert-manager.io",
                     "Certificate request has been approved by cert-manager.io");
  }
  json::object failed(json::array conditions, const char* reason, const char* why) const {
    conditions.push_back(condition("Ready", "False", reason, why));
    return {{"conditions", std::move(conditions)}, {"failureTime", rfc3339(clock.wall_now())}};
  }
  static json::object condition_of(const json::object& request, std::string_view type) {
    const json::object* const status =
        request.contains("status") ? request.at("status").if_object() : nullptr;
    if (status == nullptr || !status->contains("conditions")) return {};
    for (const json::value& each : status->at("conditions").as_array())
      if (each.at("type") == json::value(type)) return each.as_object();
    return {};
  }
  // An approver's decision alone is no answer.
  static bool unanswered(const json::object& request) {
    if (!request.contains("status")) return true;
    const bool decided =
        !condition_of(request, "Approved").empty() || !condition_of(request, "Denied").empty();
    return decided && condition_of(request, "Ready").empty();
  }

  std::vector<json::object> requests() {
    std::vector<json::object> all;
    const Subscription listed =
        cluster.memory.list({.resource = kRequests}, [&](auto page) { all = page.value().items; });
    return all;
  }

  // Thread: any.
  void pass(std::chrono::nanoseconds time) {
    const std::lock_guard lock(passing);
    clock.advance(time);
    waited += time;
    for (json::object request : requests()) {
      if (!unanswered(request)) continue;
      seen.push_back(request);
      auto status = act(request);
      if (!status) continue;
      request["status"] = *std::move(status);
      REQUIRE(cluster.memory.update(kRequests, request, "status").ok());
    }
  }

  // -- who asks it --

  Result<std::unique_ptr<certificate::Issuer>> make(cert_manager::IssuerRef issuer = {},
                                                    std::string bundle = "") {
    return cert_manager::make_issuer({.cluster = cluster,
                                      .runtime = {executor, executor, clock, rng, log, metrics},
                                      .trust_domain = TrustDomain("cluster.local"),
                                      .issuer = std::move(issuer),
                                      .trust_bundle_pem = std::move(bundle)},
                                     [this](std::chrono::nanoseconds time) { pass(time); });
  }
  std::unique_ptr<certificate::Issuer> made() {
    auto issuer = make();
    REQUIRE_MESSAGE(issuer.ok(), issuer.error().text());
    return *std::move(issuer);
  }
  certificate::SigningRequest request(std::chrono::seconds validity = 48h) {
    auto made = certificate::make_request(subject);
    REQUIRE(made.ok());
    return {subject, made->request_pem, validity};
  }

  testing::ManualClock clock;
  kubernetes_test::MemoryApiCluster cluster{clock};
  testing::ManualExecutor executor{clock};
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  CountingRng rng;
  Authority authority{clock};
  certificate::Subject init_subject{.common_name = CommonName("init-cert.cluster.local"),
                                    .spiffe_id = SpiffeId("spiffe://cluster.local/osm/init-cert"),
                                    .usage = certificate::Usage::kController};
  certificate::Subject subject{.common_name = CommonName("store.shop.cluster.local"),
                               .spiffe_id = SpiffeId("spiffe://cluster.local/ns/shop/sa/store")};
  Act act;
  bool approves = true;            // off: an approver must, by a condition of the request's status
  std::vector<json::object> seen;  // every request that it was shown, as it was then
  std::chrono::nanoseconds waited{0};
  std::mutex passing;
};

}  // namespace osm::cert_manager_test
