// The server of a webhook takes JSON only, and keeps a connection while it is asked to.
#include <doctest/doctest.h>

#include <atomic>
#include <string>

#include "net/tls_fixture.hpp"
#include "osm/net/webhook_server.hpp"

using namespace osm;
using namespace osm::net;

namespace {

struct Certificate final : certificate::KeptCertificate {
  Status change_subject(const certificate::Subject&) override { return {}; }
  certificate::CertificatePtr load() const override { return certificate; }

  TestCa ca;
  certificate::CertificatePtr certificate = ca.issue("IP:127.0.0.1");
};

struct Webhook {
  Certificate certificate;
  OwnRuntime runtime{{.least = LogLevel::kError}};
  std::atomic<bool> keeps{true};
  std::unique_ptr<HttpServer> server;
  std::unique_ptr<HttpClient> client;

  void start(std::function<bool()> keep_alive) {
    server = start_webhook({.address = {"127.0.0.1", 0},
                            .path = "/validate",
                            .review =
                                [](const Request& request) {
                                  return AdmissionAnswer{200, "[" + request.body + "]"};
                                },
                            .certificate = certificate,
                            .runtime = runtime,
                            .handlers = runtime.blocking,
                            .keep_alive = std::move(keep_alive)})
                 .value();
    client = HttpClient::create({.address = server->address(), .tls = certificate.ca.client()},
                                runtime.asio());
  }
  Response post(const std::string& type, const std::string& target = "/validate") {
    return client
        ->call(
            {.method = "POST", .target = target, .headers = {{"Content-Type", type}}, .body = "{}"})
        .value();
  }
  bool has_handshakes(int number) const {
    const std::string line = "osm_webhook_handshakes_total " + std::to_string(number) + '\n';
    return runtime.registry().expose().find(line) != std::string::npos;
  }
};

}  // namespace

TEST_SUITE("net::start_webhook") {
  TEST_CASE_FIXTURE(Webhook, "a review is answered, and another type or path is refused") {
    start({});
    CHECK(has_handshakes(0));
    const Response answer = post("application/json; charset=utf-8");
    CHECK(answer.status == 200);
    CHECK(answer.body == "[{}]");
    const Response refused = post("text/plain");
    CHECK(refused.status == 415);
    CHECK(refused.body.find("this webhook takes an AdmissionReview of Content-Type "
                            "application/json") != std::string::npos);
    CHECK(post("application/json", "/other").status == 404);
  }

  TEST_CASE_FIXTURE(Webhook, "without keep_alive each review has a connection") {
    start({});
    post("application/json");
    post("application/json");
    CHECK(has_handshakes(2));
  }

  TEST_CASE_FIXTURE(Webhook, "a connection is kept while keep_alive says so") {
    start([this] { return keeps.load(); });
    post("application/json");
    post("application/json");
    CHECK(has_handshakes(1));
    keeps = false;
    post("application/json");
    post("application/json");
    CHECK(has_handshakes(2));
  }
}
