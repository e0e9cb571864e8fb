// Servers are verified by name, address, CA, time and purpose.
#include <doctest/doctest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <atomic>
#include <future>

#include "lib/growing_time.hpp"
#include "net/io_fixture.hpp"
#include "net/scripted_server.hpp"
#include "net/tls_fixture.hpp"
#include "osm/net/http_client.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::net;

namespace {

using namespace std::chrono_literals;

// A server with `certificate`, and what it got to see.
struct TlsServer {
  explicit TlsServer(const certificate::Certificate& certificate)
      : context(server_context(certificate)) {}

  boost::asio::ssl::context context;
  std::atomic<int> handshakes{0};
  std::atomic<int> requests{0};
  std::mutex mutex;
  std::string sni = "none";
  std::string peer_serial = "none";
  ScriptedServer server{[this](Peer& peer) {
    if (!peer.start_tls(context)) return;
    ++handshakes;
    {
      std::lock_guard lock(mutex);
      const char* name = SSL_get_servername(peer.session(), TLSEXT_NAMETYPE_host_name);
      if (name != nullptr) sni = name;
      if (const X509* shown = SSL_get0_peer_certificate(peer.session()))
        peer_serial = certificate::x509::serial_number(*shown);
    }
    for (std::string line; !(line = peer.next_request()).empty(); peer.answer(line)) ++requests;
  }};
};

struct Caller {
  Result<Response> call(const Address& address, std::function<Result<ClientTls>()> tls) {
    const auto client =
        HttpClient::create({.address = address, .tls = std::move(tls)}, io.executor);
    return client->call({.deadline = 10s});
  }
  // Why a server with `certificate` is not accepted; it must not get to see the request.
  std::string refused(const certificate::Certificate& certificate,
                      std::function<Result<ClientTls>()> tls) {
    TlsServer server(certificate);
    const auto response = call(server.server.address(), std::move(tls));
    REQUIRE_FALSE(response.ok());
    CHECK(response.error().code == ErrorCode::kUnavailable);
    CHECK(server.requests == 0);
    return response.error().message;
  }

  IoThreads io{1};
};

bool contains(const std::string& text, std::string_view part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

TEST_SUITE("net::HttpClient over TLS") {
  TEST_CASE("a server is verified by its address, or by the name that was asked for") {
    const TestCa ca;
    Caller caller;
    TlsServer server(*ca.issue("IP:127.0.0.1,DNS:kubernetes.default.svc"));
    const Address address = server.server.address();
    const auto by_address = caller.call(address, ca.client());
    REQUIRE_MESSAGE(by_address.ok(), by_address.error().text());
    CHECK(by_address->body == "GET / HTTP/1.1");
    CHECK(server.sni == "none");  // an address is no name (RFC 6066, section 3)
    const auto by_name = caller.call(address, ca.client("kubernetes.default.svc"));
    REQUIRE_MESSAGE(by_name.ok(), by_name.error().text());
    CHECK(server.sni == "kubernetes.default.svc");
    CHECK(caller.call(address, ca.client("kubernetes.default.svc.")).ok());
    CHECK(caller.call({"localhost", address.port, ""}, ca.client("127.0.0.1")).ok());
  }

  TEST_CASE("a server with another name, address, CA, time or purpose is not talked to") {
    const TestCa ca;
    const TestCa theirs;
    Caller caller;
    const auto good = ca.issue("IP:127.0.0.1,DNS:good.example");
    CHECK(contains(caller.refused(*good, ca.client("bad.example")), "hostname mismatch"));
    CHECK(contains(caller.refused(*good, ca.client("127.0.0.2")), "IP address mismatch"));
    CHECK(contains(caller.refused(*ca.issue("DNS:127.0.0.1"), ca.client()), "IP address mismatch"));
    CHECK(contains(caller.refused(*good, theirs.client()), "certificate is not accepted"));
    CHECK(contains(caller.refused(*ca.issue("IP:127.0.0.1", -1min), ca.client()), "expired"));
    CHECK(contains(caller.refused(*ca.issue("IP:127.0.0.1", 1h, "clientAuth"), ca.client()),
                   "purpose"));
    // Without roots of its own the system's hold, and those do not know this CA.
    CHECK(contains(caller.refused(*good, [] { return ClientTls{}; }), "not accepted"));
    TlsServer server(*good);
    for (const std::string& name : {std::string("x\0good.example", 14), std::string(".")}) {
      const auto invalid = caller.call(server.server.address(), ca.client(name));
      REQUIRE_FALSE(invalid.ok());
      CHECK(invalid.error().code == ErrorCode::kInvalidArgument);
    }
    CHECK(server.requests == 0);
  }

  TEST_CASE("the server's own certificate can be the trusted one") {
    const TestCa ca;
    Caller caller;
    const auto pinned = ca.issue("IP:127.0.0.1");
    TlsServer server(*pinned);
    ClientTls tls;
    tls.trusted_pem = pinned->chain_pem;
    CHECK(caller.call(server.server.address(), [&] { return tls; }).ok());
    tls.trusted_pem = ca.issue("IP:127.0.0.1")->chain_pem;
    CHECK_FALSE(caller.call(server.server.address(), [&] { return tls; }).ok());
  }

  TEST_CASE("a client certificate is shown to a server that asks, the present one each time") {
    const TestCa ca;
    Caller caller;
    TlsServer server(*ca.issue("IP:127.0.0.1"));
    server.context.set_verify_mode(boost::asio::ssl::verify_peer |
                                   boost::asio::ssl::verify_fail_if_no_peer_cert);
    const std::string roots = ca.root_pem();
    server.context.add_certificate_authority(boost::asio::buffer(roots));
    const Address address = server.server.address();
    CHECK_FALSE(caller.call(address, ca.client()).ok());
    CHECK(server.requests == 0);

    ClientTls tls = ca.client()().value();
    const auto become = [&](const certificate::CertificatePtr& who) {
      tls.certificate_pem = who->chain_pem;
      tls.private_key = std::shared_ptr<const certificate::PrivateKey>(who, &who->private_key);
      return who->serial_number;
    };
    const auto client = HttpClient::create(
        {.address = address, .tls = [&] { return tls; }, .idle_timeout = 1ms}, caller.io.executor);
    for (int i = 0; i < 2; ++i) {
      const auto serial = become(ca.issue("URI:spiffe://cluster.local/me"));
      const auto response = client->call({});
      REQUIRE_MESSAGE(response.ok(), response.error().text());
      CHECK(std::stol(server.peer_serial, nullptr, 16) == std::stol(serial));
      REQUIRE(testing::wait_until([&] { return server.server.open() == 0; }));
    }
  }

  TEST_CASE("material that cannot be used is an error that names the part, never the key") {
    const TestCa ca;
    Caller caller;
    TlsServer server(*ca.issue("IP:127.0.0.1"));
    const auto own = ca.issue("DNS:me");
    const auto other = ca.issue("DNS:other");
    const auto error_of = [&](const std::function<void(ClientTls&)>& spoil) {
      ClientTls tls = ca.client()().value();
      tls.certificate_pem = own->chain_pem;
      tls.private_key = std::shared_ptr<const certificate::PrivateKey>(own, &own->private_key);
      spoil(tls);
      const auto failed = caller.call(server.server.address(), [&] { return tls; });
      REQUIRE_FALSE(failed.ok());
      CHECK(failed.error().code == ErrorCode::kInvalidCertificate);
      CHECK(failed.error().message.find("PRIVATE KEY") == std::string::npos);
      return failed.error().message;
    };
    const auto key = [](std::string pem) {
      return std::make_shared<const certificate::PrivateKey>(std::move(pem));
    };
    CHECK(contains(error_of([](ClientTls& t) { t.trusted_pem = "nothing"; }), "trusted"));
    CHECK(contains(error_of([](ClientTls& t) {
                     t.trusted_pem +=
                         "-----BEGIN CERTIFICATE-----\nbroken\n"
                         "-----END CERTIFICATE-----\n";
                   }),
                   "trusted"));
    CHECK(contains(error_of([](ClientTls& t) { t.certificate_pem = "nothing"; }), "client cert"));
    CHECK(contains(error_of([](ClientTls& t) { t.private_key = nullptr; }), "without its key"));
    CHECK(contains(error_of([&](ClientTls& t) { t.private_key = key("nothing"); }), "private key"));
    CHECK(contains(error_of([&](ClientTls& t) {
                     t.private_key = {other, &other->private_key};
                   }),
                   "private key"));
    // One that needs a passphrase must not be asked for at a terminal.
    CHECK(contains(error_of([&](ClientTls& t) { t.private_key = key(encrypted_key_pem()); }),
                   "unencrypted"));
    CHECK(server.handshakes == 0);
    const auto failed = caller.call(server.server.address(), []() -> Result<ClientTls> {
      return Error{ErrorCode::kUnreadableSource, "ca.crt: gone"};
    });
    CHECK(failed.error().code == ErrorCode::kUnreadableSource);
    CHECK(contains(failed.error().message, "ca.crt: gone"));
  }

  TEST_CASE("TLS below 1.2 is not spoken") {
    const TestCa ca;
    Caller caller;
    TlsServer server(*ca.issue("IP:127.0.0.1"));
    SSL_CTX_set_security_level(server.context.native_handle(), 0);
    SSL_CTX_set_min_proto_version(server.context.native_handle(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(server.context.native_handle(), TLS1_1_VERSION);
    CHECK_FALSE(caller.call(server.server.address(), ca.client()).ok());
    SSL_CTX_set_max_proto_version(server.context.native_handle(), TLS1_2_VERSION);
    CHECK(caller.call(server.server.address(), ca.client()).ok());
  }

  TEST_CASE("a server that is silent in the handshake, or speaks something else, is given up") {
    const TestCa ca;
    IoThreads io;
    std::atomic<bool> silent = true;
    ScriptedServer server([&](Peer& peer) {
      if (!silent) peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
      peer.wait_for_close();
    });
    const auto call = [&](std::chrono::milliseconds timeout) {
      return HttpClient::create(
                 {.address = server.address(), .tls = ca.client(), .connect_timeout = timeout},
                 io.executor)
          ->call({});
    };
    CHECK(testing::with_growing_time(200ms, [&](std::chrono::milliseconds timeout) {
      const auto late = call(timeout);
      CHECK(late.error().code == ErrorCode::kDeadlineExceeded);
      const std::string text = std::to_string(timeout.count()) + " ms";
      return late.error().message.find("waited for the TLS handshake for " + text) !=
             std::string::npos;
    }));
    silent = false;
    CHECK(call(1h).error().code == ErrorCode::kUnavailable);
  }

  TEST_CASE("a response that an attacker cut off is not taken for a whole one") {
    const TestCa ca;
    Caller caller;
    auto context = server_context(*ca.issue("IP:127.0.0.1"));
    ScriptedServer server([&](Peer& peer) {
      if (!peer.start_tls(context)) return;
      peer.next_request();
      peer.send("HTTP/1.1 200 OK\r\n\r\nall but the end");  // ends with the connection
      if (peer.number() == 1) peer.close_tls();
    });
    CHECK(caller.call(server.address(), ca.client())->body == "all but the end");
    const auto cut = caller.call(server.address(), ca.client());
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.error().code == ErrorCode::kUnavailable);
  }

  TEST_CASE("failures leave nothing in OpenSSL's error queue of the thread they ran on") {
    const TestCa ca;
    const TestCa theirs;
    Caller caller;  // one thread
    caller.refused(*ca.issue("IP:127.0.0.1"), theirs.client());
    TlsServer server(*ca.issue("IP:127.0.0.1"));
    ClientTls broken = ca.client()().value();
    broken.certificate_pem = "nothing";
    broken.private_key = std::make_shared<const certificate::PrivateKey>(std::string("x"));
    CHECK_FALSE(caller.call(server.server.address(), [&] { return broken; }).ok());
    std::promise<unsigned long> left;
    caller.io.executor.post([&] { left.set_value(ERR_peek_error()); });
    CHECK(left.get_future().get() == 0);
  }
}

}  // namespace
