// cert-manager approves, denies and signs CertificateRequests as the real one does.
//
// Behaviour of cert-manager's CertificateRequests that plugins/cert_manager relies on.
#include <doctest/doctest.h>

#include "certificate/x509.hpp"
#include "contract/cert_manager_server.hpp"
#include "osm/certificate/request.hpp"

namespace osm::contract {
namespace {

using cert_manager_test::kRequests;
using certificate::Subject;
using certificate::Usage;

constexpr const char* kNamespace = "osm-system";
constexpr std::chrono::seconds kValidity = std::chrono::hours(2);

Subject workload() {
  return {.common_name = CommonName("store.shop.cluster.local"),
          .spiffe_id = SpiffeId("spiffe://cluster.local/ns/shop/sa/store")};
}

// A CertificateRequest as plugins/cert_manager words it, deleted with the test.
class Request {
 public:
  Request(CertManagerServer& server, std::string name, const std::string& request_pem,
          const char* issuer = "osm-ca", const char* kind = "Issuer")
      : server_(server), name_(std::move(name)) {
    const json::object issuer_ref{{"name", issuer}, {"kind", kind}, {"group", "cert-manager.io"}};
    const auto made = server_.api().create(
        kRequests, {{"apiVersion", "cert-manager.io/v1"},
                    {"kind", "CertificateRequest"},
                    {"metadata", {{"namespace", kNamespace}, {"name", name_}}},
                    {"spec",
                     {{"request", base64(request_pem)},
                      {"issuerRef", issuer_ref},
                      {"duration", std::to_string(kValidity.count()) + "s"},
                      {"isCA", false},
                      {"usages", json::array{"digital signature", "key encipherment", "server auth",
                                             "client auth"}}}}});
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().text()));
  }
  ~Request() { static_cast<void>(server_.api().remove(kRequests, kNamespace, name_)); }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  json::object now() const { return value_of(server_.api().get(kRequests, kNamespace, name_)); }
  // Status, reason and message of a condition; empty: there is none.
  json::object condition(const char* type) const {
    const json::value all = value_at(now(), "/status/conditions");
    if (!all.is_array()) return {};
    for (const json::value& each : all.as_array())
      if (each.at("type") == type) return each.as_object();
    return {};
  }
  // The condition, as soon as it is there.
  json::object wait_for(const char* type) const {
    for (int i = 0; i < 300; ++i) {
      server_.pass();
      if (json::object found = condition(type); !found.empty()) return found;
    }
    FAIL("no condition " << std::string(type) << ": " << json::serialize(now()));
    return {};
  }
  // Until the condition Ready has this reason.
  json::object wait_until_ready_is(const char* reason) const {
    json::object ready;
    for (int i = 0; i < 300; ++i) {
      server_.pass();
      ready = condition("Ready");
      if (!ready.empty() && ready.at("reason") == reason) return ready;
    }
    FAIL("Ready is not " << std::string(reason) << ": " << json::serialize(now()));
    return {};
  }
  // As `cmctl approve` and `cmctl deny` do.
  void decide(const char* type) const {
    const json::object condition{{"type", type},
                                 {"status", "True"},
                                 {"reason", "contract"},
                                 {"message", "by hand"},
                                 {"lastTransitionTime", "2024-01-01T00:00:00Z"}};
    const json::object body{{"status", json::object{{"conditions", json::array{condition}}}}};
    const auto done = server_.api().patch(kRequests, kNamespace, name_,
                                          {.body = json::serialize(body), .subresource = "status"});
    REQUIRE_MESSAGE(done.ok(), (done.ok() ? "" : done.error().text()));
  }
  std::string pem(const char* pointer) const {
    return from_base64(text_at(now(), pointer)).value_or("no base64");
  }
  void check_issued(const Subject& subject, const std::string& request_pem) const {
    const auto checked = certificate::check_answer(
        {subject, request_pem, pem("/status/certificate"), pem("/status/ca"), kValidity},
        server_.clock());
    CHECK_MESSAGE(checked.ok(), (checked.ok() ? "" : checked.error().text()));
  }

 private:
  CertManagerServer& server_;
  const std::string name_;
};

TEST_SUITE("cert-manager contract: approving by itself") {
  TEST_CASE("a request is approved and signed; the status has the certificate and the CA") {
    const auto server = make_cert_manager(true);
    const Subject subject = workload();
    const auto asked = certificate::make_request(subject).value();
    for (const char* kind : {"Issuer", "ClusterIssuer"}) {
      CAPTURE(kind);
      const Request request(*server, "contract-issued", asked.request_pem, "osm-ca", kind);
      const json::object ready = request.wait_until_ready_is("Issued");
      CHECK(ready.at("status") == "True");
      CHECK_FALSE(json::value_to<std::string>(ready.at("message")).empty());
      const json::object approved = request.condition("Approved");
      REQUIRE_FALSE(approved.empty());
      CHECK(approved.at("status") == "True");
      CHECK(approved.at("reason") == "cert-manager.io");
      CHECK(request.condition("Denied").empty());
      CHECK(request.condition("InvalidRequest").empty());
      request.check_issued(subject, asked.request_pem);
      const std::string ca = request.pem("/status/ca");
      const auto root = certificate::x509::parse_certificate(ca);
      REQUIRE_MESSAGE(root.ok(), ca);
      CHECK(X509_self_signed(root->get(), 1) == 1);
    }
  }

  TEST_CASE("a request of an issuer that does not exist is pending, in words") {
    const auto server = make_cert_manager(true);
    const auto asked = certificate::make_request(workload()).value();
    const Request request(*server, "contract-no-issuer", asked.request_pem, "nowhere");
    const json::object ready = request.wait_for("Ready");
    CHECK(ready.at("status") == "False");
    CHECK(ready.at("reason") == "Pending");
    CHECK(json::value_to<std::string>(ready.at("message")).find("not found") != std::string::npos);
    CHECK(text_at(request.now(), "/status/certificate").empty());
  }

  TEST_CASE("a request without a CSR fails, in words") {
    const auto server = make_cert_manager(true);
    const Request request(*server, "contract-no-csr", "no request");
    const json::object ready = request.wait_until_ready_is("Failed");
    CHECK(ready.at("status") == "False");
    CHECK_FALSE(json::value_to<std::string>(ready.at("message")).empty());
    CHECK_FALSE(text_at(request.now(), "/status/failureTime").empty());
    CHECK(text_at(request.now(), "/status/certificate").empty());
  }
}

TEST_SUITE("cert-manager contract: with an approver") {
  TEST_CASE("a request waits without a condition until it is approved, then it is signed") {
    const auto server = make_cert_manager(false);
    const Subject subject = workload();
    const auto asked = certificate::make_request(subject).value();
    const Request request(*server, "contract-approved", asked.request_pem);
    for (int i = 0; i < 20; ++i) server->pass();
    CHECK(request.condition("Approved").empty());
    CHECK(request.condition("Ready").empty());
    request.decide("Approved");
    CHECK(request.wait_until_ready_is("Issued").at("status") == "True");
    CHECK(request.condition("Approved").at("reason") == "contract");
    request.check_issued(subject, asked.request_pem);
  }

  TEST_CASE("a denied request is never signed, and keeps the approver's words") {
    const auto server = make_cert_manager(false);
    const auto asked = certificate::make_request(workload()).value();
    const Request request(*server, "contract-denied", asked.request_pem);
    request.decide("Denied");
    CHECK(request.wait_until_ready_is("Denied").at("status") == "False");
    CHECK(request.condition("Denied").at("status") == "True");
    CHECK(request.condition("Denied").at("message") == "by hand");
    CHECK_FALSE(text_at(request.now(), "/status/failureTime").empty());
    CHECK(text_at(request.now(), "/status/certificate").empty());
  }
}

}  // namespace
}  // namespace osm::contract
