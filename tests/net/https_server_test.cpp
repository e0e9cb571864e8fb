// Renewed certificates are used by the next handshake, and client certificates are checked.
#include <doctest/doctest.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <future>

#include "net/io_fixture.hpp"
#include "net/tls_fixture.hpp"
#include "osm/net/http_client.hpp"
#include "osm/net/http_server.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::net;

namespace {

using namespace std::chrono_literals;
namespace ssl = boost::asio::ssl;

struct HttpsServer {
  TestCa ca;
  IoThreads io;
  testing::ThreadExecutor handlers{2};
  testing::CapturingLog log;
  std::mutex mutex;
  certificate::CertificatePtr certificate = ca.issue("IP:127.0.0.1");
  std::atomic<int> handled{0};
  std::unique_ptr<HttpServer> server;

  explicit HttpsServer(HttpServerOptions options = {}) {
    options.listen = *parse_address("127.0.0.1:0");
    options.tls = [this] {
      std::lock_guard lock(mutex);
      return certificate;
    };
    const auto handler = [this](const Request& request) {
      ++handled;
      return text_response(request.method + ' ' + request.path + ' ' + request.body);
    };
    server = HttpServer::start(options, io.executor, handlers, handler, log).value();
  }
  void serve_with(certificate::CertificatePtr next) {
    std::lock_guard lock(mutex);
    certificate = std::move(next);
  }
  std::unique_ptr<HttpClient> client() {
    return HttpClient::create({.address = server->address(), .tls = ca.client()}, io.executor);
  }
};

// A client that shows what happens on the connection.
struct RawClient {
  boost::asio::io_context io;
  ssl::context context{ssl::context::tls_client};
  boost::asio::ip::tcp::socket socket{io};
  ssl::stream<boost::asio::ip::tcp::socket&> tls{socket, context};

  explicit RawClient(const Address& address) {
    SSL_CTX_set_security_level(context.native_handle(), 0);  // what it speaks is the test's choice
    SSL_set_security_level(tls.native_handle(), 0);
    socket.connect({boost::asio::ip::make_address(address.host), address.port});
  }
  bool handshake() {
    boost::system::error_code error;
    tls.handshake(ssl::stream_base::client, error);
    return !error;
  }
  // Until the server ends it; how is in `end`.
  std::string exchange(const std::string& request) {
    boost::system::error_code error;
    boost::asio::write(tls, boost::asio::buffer(request), error);
    std::string text;
    boost::asio::read(tls, boost::asio::dynamic_buffer(text), end);
    return text;
  }
  std::string read_plain() {
    std::string text;
    boost::asio::read(socket, boost::asio::dynamic_buffer(text), end);
    return text;
  }
  std::string serial() const {
    return certificate::x509::serial_number(
        *SSL_get0_peer_certificate(const_cast<RawClient*>(this)->tls.native_handle()));
  }
  boost::system::error_code end;
};

constexpr const char* kLastRequest = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

TEST_SUITE("net::HttpServer over TLS") {
  TEST_CASE("requests arrive over TLS as they do without, one connection for many") {
    HttpsServer s;
    const auto client = s.client();
    for (int i = 0; i < 3; ++i) {
      const auto response =
          client->call({.method = "POST", .target = "/mutate", .body = std::string(100'000, 'x')});
      REQUIRE_MESSAGE(response.ok(), response.error().text());
      CHECK(response->body == "POST /mutate " + std::string(100'000, 'x'));
    }
    CHECK(client->call({.method = "POST", .body = std::string(2'000'000, 'x')})->status == 413);
    CHECK(s.handled == 3);
  }

  TEST_CASE("without keep-alive each connection ends with its response, whole") {
    HttpServerOptions one_request;
    one_request.keep_alive = false;
    HttpsServer s(one_request);
    RawClient client(s.server->address());
    REQUIRE(client.handshake());
    const std::string answer = client.exchange("GET /only HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(answer.find("\r\nConnection: close\r\n") != std::string::npos);
    CHECK(answer.ends_with("GET /only "));
    CHECK(client.end == boost::asio::error::eof);  // the end was told, not only found
  }

  TEST_CASE("a renewed certificate is served to the next connection; those that are open go on") {
    HttpsServer s;
    const auto client = s.client();
    REQUIRE(client->call({}).ok());
    RawClient before(s.server->address());
    REQUIRE(before.handshake());
    const auto renewed = s.ca.issue("IP:127.0.0.1");
    s.serve_with(renewed);
    RawClient after(s.server->address());
    REQUIRE(after.handshake());
    CHECK(before.serial() != after.serial());
    CHECK(std::stol(after.serial(), nullptr, 16) == std::stol(renewed->serial_number));
    CHECK(before.exchange(kLastRequest).ends_with("GET /last "));
    CHECK(client->call({}).ok());
  }

  TEST_CASE("a session cannot be resumed, since it would go on with the certificate of then") {
    HttpsServer s;
    RawClient first(s.server->address());
    REQUIRE(first.handshake());
    CHECK(first.exchange(kLastRequest).ends_with("GET /last "));
    SSL_SESSION* session = SSL_get1_session(first.tls.native_handle());
    CHECK(SSL_SESSION_is_resumable(session) == 0);
    SSL_SESSION_free(session);
  }

  TEST_CASE("without a certificate handshakes fail and say so in the log, until there is one") {
    HttpsServer s;
    const auto good = s.certificate;
    s.serve_with(nullptr);
    const auto client = s.client();
    CHECK(client->call({}).error().code == ErrorCode::kUnavailable);
    CHECK(s.log.count("there is no certificate to serve with yet") == 1);
    CHECK(s.handled == 0);
    s.serve_with(good);
    CHECK(client->call({}).ok());
  }

  TEST_CASE("a client without TLS is closed without an answer") {
    HttpsServer s;
    RawClient plain(s.server->address());
    const std::string request = kLastRequest;
    boost::asio::write(plain.socket, boost::asio::buffer(request));
    CHECK(plain.read_plain().find("HTTP/1.1 200") == std::string::npos);
    CHECK(s.handled == 0);
    CHECK(s.client()->call({}).ok());
  }

  TEST_CASE("TLS 1.3 is spoken, 1.2 too, and nothing below") {
    HttpsServer s;
    RawClient newest(s.server->address());
    REQUIRE(newest.handshake());
    CHECK(SSL_version(newest.tls.native_handle()) == TLS1_3_VERSION);
    RawClient older(s.server->address());
    SSL_set_max_proto_version(older.tls.native_handle(), TLS1_2_VERSION);
    CHECK(older.handshake());
    RawClient oldest(s.server->address());
    SSL_set_min_proto_version(oldest.tls.native_handle(), TLS1_VERSION);
    SSL_set_max_proto_version(oldest.tls.native_handle(), TLS1_1_VERSION);
    CHECK_FALSE(oldest.handshake());
  }

  TEST_CASE("a client that offers protocols gets HTTP/1.1, or nothing if that is not among them") {
    HttpsServer s;
    const unsigned char both[] = "\x02h2\x08http/1.1";
    RawClient go(s.server->address());
    SSL_set_alpn_protos(go.tls.native_handle(), both, sizeof both - 1);
    REQUIRE(go.handshake());
    const unsigned char* chosen = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(go.tls.native_handle(), &chosen, &size);
    CHECK(std::string(reinterpret_cast<const char*>(chosen), size) == "http/1.1");
    RawClient h2(s.server->address());
    SSL_set_alpn_protos(h2.tls.native_handle(), both, 3);
    CHECK_FALSE(h2.handshake());
  }

  TEST_CASE("a client that does not finish its handshake is dropped, and so is one that idles") {
    HttpServerOptions options;
    options.io_timeout = 1s;
    options.idle_timeout = 1s;
    options.max_connections = 2;
    HttpsServer s(options);
    RawClient silent(s.server->address());
    // A busy machine may drop a client before its handshake is over.
    std::unique_ptr<RawClient> idle;
    REQUIRE(testing::wait_until([&] {
      idle = std::make_unique<RawClient>(s.server->address());
      return idle->handshake();
    }));
    // Both places are taken: who comes next waits for them.
    CHECK(testing::wait_until([&] { return s.client()->call({}).ok(); }));
    CHECK(silent.read_plain().empty());
  }

  TEST_CASE("with a client CA only clients with its certificate are answered") {
    const TestCa callers;
    HttpServerOptions options;
    options.client_ca_pem = callers.root_pem();
    HttpsServer s(options);
    const auto call_as = [&](const certificate::CertificatePtr& who) {
      ClientTls tls = s.ca.client()().value();
      if (who) {
        tls.certificate_pem = who->chain_pem;
        tls.private_key = std::shared_ptr<const certificate::PrivateKey>(who, &who->private_key);
      }
      const auto client = HttpClient::create(
          {.address = s.server->address(), .tls = [tls] { return tls; }}, s.io.executor);
      return client->call({}).ok();
    };
    CHECK(call_as(callers.issue("DNS:apiserver")));
    CHECK(s.handled == 1);
    CHECK_FALSE(call_as(nullptr));
    CHECK_FALSE(call_as(s.ca.issue("DNS:apiserver")));
    CHECK_FALSE(call_as(callers.issue("DNS:apiserver", std::chrono::seconds(-60))));
    CHECK_FALSE(call_as(callers.issue("DNS:apiserver", 1h, "serverAuth")));
    CHECK(s.handled == 1);
  }

  TEST_CASE("a client CA that is none is told at the start") {
    IoThreads io;
    testing::ThreadExecutor handlers{1};
    testing::CapturingLog log;
    const auto server = HttpServer::start(
        {.listen = *parse_address("127.0.0.1:0"), .client_ca_pem = "nothing"}, io.executor,
        handlers, [](const Request&) { return Response{}; }, log);
    REQUIRE_FALSE(server.ok());
    CHECK(server.error().code == ErrorCode::kInvalidCertificate);
  }

  TEST_CASE("the server sends close_notify after the last response") {
    HttpsServer s;
    RawClient client(s.server->address());
    REQUIRE(client.handshake());
    CHECK(client.exchange(kLastRequest).ends_with("GET /last "));
    CHECK(client.end == boost::asio::error::eof);  // close_notify; else stream_truncated
  }

  TEST_CASE("stop ends connections that idle, and those in the middle of a handshake") {
    HttpsServer s;
    const auto client = s.client();
    REQUIRE(client->call({}).ok());
    RawClient silent(s.server->address());
    CHECK(s.server->stop(10s).ok());
    CHECK(silent.read_plain().empty());
    CHECK_FALSE(client->call({}).ok());
  }

  TEST_CASE("many clients at once are all answered") {
    HttpsServer s;
    std::atomic<int> good{0};
    std::vector<std::unique_ptr<HttpClient>> clients;
    std::vector<Subscription> calls;
    for (int c = 0; c < 8; ++c) {
      clients.push_back(s.client());
      for (int i = 0; i < 20; ++i)
        calls.push_back(
            clients.back()->send({.target = "/" + std::to_string(i)}, [&](Result<Response> r) {
              if (r.ok() && r->status == 200) ++good;
            }));
    }
    CHECK(testing::wait_until([&] { return good == 160; }));
    CHECK(s.handled == 160);
  }
}

}  // namespace
