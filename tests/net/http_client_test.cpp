// Calls share bounded connections, and broken connections are replaced when that is safe.
#include "osm/net/http_client.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <latch>

#include "lib/growing_time.hpp"
#include "net/io_fixture.hpp"
#include "net/scripted_server.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::net;

namespace {

using namespace std::chrono_literals;

struct Client {
  explicit Client(const Address& address) : Client(HttpClientOptions{.address = address}) {}
  explicit Client(HttpClientOptions options)
      : client(HttpClient::create(std::move(options), io.executor)) {}

  Result<Response> get(const std::string& target) { return client->call({.target = target}); }

  IoThreads io;
  std::unique_ptr<HttpClient> client;
};

HttpRequest post(std::string body) {
  return {.method = "POST", .target = "/p", .body = std::move(body)};
}

// Result of a call to a server that sends `bytes` and closes.
Result<Response> answer_to(std::string bytes, HttpRequest request = {}) {
  ScriptedServer server([&](Peer& peer) {
    peer.next_request();
    peer.send(bytes);
  });
  Client client(server.address());
  return client.client->call(std::move(request));
}

std::string header(const Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return "";
}

TEST_SUITE("net::HttpClient") {
  TEST_CASE("calls one after the other go over one connection") {
    ScriptedServer server([](Peer& peer) { peer.echo(); });
    Client client(server.address());
    for (int i = 0; i < 5; ++i) {
      const auto response = client.get("/" + std::to_string(i));
      REQUIRE_MESSAGE(response.ok(), response.error().text());
      CHECK(response->body == "GET /" + std::to_string(i) + " HTTP/1.1");
    }
    CHECK(client.client->call(post("body"))->body == "POST /p HTTP/1.1");
    CHECK(server.connections() == 1);
  }

  TEST_CASE("a call that a callback sends goes over the connection that just became free") {
    ScriptedServer server([](Peer& peer) { peer.echo(); });
    Client client(server.address());
    std::promise<std::string> second;
    Subscription next;
    const Subscription first = client.client->send({.target = "/1"}, [&](const Result<Response>&) {
      next = client.client->send({.target = "/2"}, [&](Result<Response> response) {
        second.set_value(response.ok() ? response->body : response.error().text());
      });
    });
    CHECK(second.get_future().get() == "GET /2 HTTP/1.1");
    CHECK(server.connections() == 1);
  }

  TEST_CASE("calls beyond the bound of connections wait, and are sent in order") {
    std::mutex mutex;
    std::vector<std::string> arrived;
    std::promise<void> release;
    auto released = release.get_future().share();
    ScriptedServer server([&](Peer& peer) {
      for (std::string line; !(line = peer.next_request()).empty(); peer.answer("")) {
        std::lock_guard lock(mutex);
        arrived.push_back(line.substr(4, 2));
        if (arrived.size() == 1) released.wait();
      }
    });
    Client client(HttpClientOptions{.address = server.address(), .max_connections = 1});
    std::latch answered(4);
    std::vector<Subscription> calls;
    for (int i = 0; i < 4; ++i)
      calls.push_back(client.client->send({.target = "/" + std::to_string(i)},
                                          [&](const Result<Response>&) { answered.count_down(); }));
    release.set_value();
    answered.wait();
    CHECK(arrived == std::vector<std::string>{"/0", "/1", "/2", "/3"});
    CHECK(server.connections() == 1);
  }

  TEST_CASE("as many calls as the bound allows run at once, and no more") {
    std::atomic<int> running{0};
    std::promise<void> release;
    auto released = release.get_future().share();
    ScriptedServer server([&](Peer& peer) {
      for (; !peer.next_request().empty(); peer.answer("")) {
        ++running;
        released.wait();
      }
    });
    Client client(HttpClientOptions{.address = server.address(), .max_connections = 3});
    std::latch answered(9);
    std::vector<Subscription> calls;
    for (int i = 0; i < 9; ++i)
      calls.push_back(
          client.client->send({}, [&](const Result<Response>&) { answered.count_down(); }));
    CHECK(testing::wait_until([&] { return running == 3; }));
    release.set_value();
    answered.wait();
    CHECK(running == 9);
    CHECK(server.connections() == 3);
  }

  TEST_CASE("a connection that the server closed while it was idle is not used again") {
    ScriptedServer server([](Peer& peer) {
      peer.next_request();
      peer.answer("once");
    });
    Client client(server.address());
    for (int i = 1; i <= 3; ++i) {
      const auto response =
          client.client->call(post("x"));  // not even by what must not be repeated
      REQUIRE_MESSAGE(response.ok(), response.error().text());
      REQUIRE(testing::wait_until([&] { return server.open() == 0; }));
      CHECK(server.connections() == i);
    }
  }

  TEST_CASE("a kept connection that breaks is replaced for GET, and an error for POST") {
    ScriptedServer server([](Peer& peer) {
      peer.next_request();
      peer.answer("first");
      peer.next_request();  // and closes instead of an answer
    });
    Client client(server.address());
    REQUIRE(client.get("/").ok());
    CHECK(client.get("/")->body == "first");
    CHECK(server.connections() == 2);
    const auto failed = client.client->call(post("x"));
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.error().code == ErrorCode::kUnavailable);
    CHECK(failed.error().message.find("POST /p at 127.0.0.1:") == 0);
    CHECK(failed.error().message.find("the server closed the connection") != std::string::npos);
    CHECK(server.connections() == 2);
  }

  TEST_CASE("a connection is replaced only once, and only before an answer began") {
    ScriptedServer server([](Peer& peer) {
      peer.next_request();
      if (peer.number() == 1) peer.answer("");
      if (peer.number() == 1) peer.next_request();
      if (peer.number() == 3) peer.send("HTTP/1.1 200 OK\r\nContent-Le");
    });
    Client client(server.address());
    REQUIRE(client.get("/").ok());
    CHECK(client.get("/").error().code == ErrorCode::kUnavailable);
    CHECK(server.connections() == 2);
    CHECK(client.get("/").error().code == ErrorCode::kUnavailable);
    CHECK(server.connections() == 3);
  }

  TEST_CASE(
      "an unused connection is closed after the idle timeout, or at once if the server asks") {
    ScriptedServer server([](Peer& peer) {
      peer.next_request();
      if (peer.number() == 1) peer.answer("");
      if (peer.number() == 2) peer.send("HTTP/1.1 204 No\r\nConnection: close\r\n\r\n");
      peer.wait_for_close();
    });
    Client client(HttpClientOptions{.address = server.address(), .idle_timeout = 20ms});
    CHECK(client.get("/").ok());
    CHECK(testing::wait_until([&] { return server.open() == 0; }));
    CHECK(client.get("/")->status == 204);
    CHECK(testing::wait_until([&] { return server.open() == 0; }));
  }

  TEST_CASE("a call whose handle died is never answered, and its connection is closed") {
    std::promise<void> arrived;
    ScriptedServer server([&](Peer& peer) {
      if (peer.number() > 1) return peer.echo();
      peer.next_request();
      arrived.set_value();
      peer.wait_for_close();
    });
    Client client(HttpClientOptions{.address = server.address(), .max_connections = 1});
    std::atomic<int> answered{0};
    Subscription call = client.client->send({}, [&](const Result<Response>&) { ++answered; });
    Subscription waiting = client.client->send({}, [&](const Result<Response>&) { ++answered; });
    arrived.get_future().wait();
    waiting.reset();
    call.reset();
    CHECK(client.get("/next")->body == "GET /next HTTP/1.1");
    CHECK(server.connections() == 2);
    CHECK(answered == 0);
  }

  TEST_CASE("a call's captures are destroyed with its handle") {
    ScriptedServer server([](Peer& peer) { peer.wait_for_close(); });
    Client client(server.address());
    auto captured = std::make_shared<int>();
    Subscription call = client.client->send({}, [captured](const Result<Response>&) {});
    call.reset();
    CHECK(captured.use_count() == 1);
  }

  TEST_CASE("dropping a handle waits for its callback, but not inside it") {
    ScriptedServer server([](Peer& peer) { peer.echo(); });
    Client client(server.address());
    std::promise<void> started;
    std::promise<void> release;
    std::atomic<bool> finished{false};
    Subscription call = client.client->send({}, [&](const Result<Response>&) {
      started.set_value();
      release.get_future().wait();
      finished = true;
    });
    started.get_future().wait();
    std::thread releaser([&] { release.set_value(); });
    call.reset();
    CHECK(finished);
    releaser.join();

    std::promise<void> assigned;
    std::promise<void> done;
    Subscription own = client.client->send({}, [&](const Result<Response>&) {
      assigned.get_future().wait();
      own.reset();
      done.set_value();
    });
    assigned.set_value();
    CHECK(done.get_future().wait_for(10s) == std::future_status::ready);
  }

  TEST_CASE("destroying a client ends its calls without their callbacks") {
    std::latch arrived(3);
    ScriptedServer server([&](Peer& peer) {
      peer.next_request();
      arrived.count_down();
      peer.wait_for_close();
    });
    Client client(server.address());
    std::atomic<int> called{0};
    std::vector<Subscription> calls;
    for (int i = 0; i < 2; ++i)
      calls.push_back(client.client->send({}, [&](const Result<Response>&) { ++called; }));
    calls.push_back(client.client->open_stream(
        {}, {.on_head = {}, .on_data = {}, .on_end = [&](const Status&) { ++called; }}));
    arrived.wait();
    client.client.reset();
    CHECK(testing::wait_until([&] { return server.open() == 0; }));
    CHECK(called == 0);
  }

  TEST_CASE("a deadline's error says what the call waited for") {
    ScriptedServer server([](Peer& peer) {
      const std::string line = peer.next_request();
      if (line.find("/half") != std::string::npos)
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
      peer.wait_for_close();
    });
    Client client(HttpClientOptions{.address = server.address(), .max_connections = 1});
    // The call has to get to the state that the error is about before its deadline.
    const auto says = [&](const std::string& target, const std::string& state) {
      return testing::with_growing_time(30ms, [&](std::chrono::milliseconds deadline) {
        const auto late = client.client->call({.target = target, .deadline = deadline});
        REQUIRE_FALSE(late.ok());
        CHECK(late.error().code == ErrorCode::kDeadlineExceeded);
        const std::string text = state + std::to_string(deadline.count()) + " ms";
        return late.error().message.find(text) != std::string::npos;
      });
    };
    CHECK(says("/", "no answer within "));
    CHECK(says("/half", "the answer did not end within "));
    const Subscription holder =
        client.client->send({.deadline = 1h}, [](const Result<Response>&) {});
    CHECK(says("/", "all 1 connections were in use for "));
  }

  TEST_CASE("a server that takes no connection runs into the connect timeout") {
    // The kernel completes backlog + 1 handshakes by itself and is silent towards the others.
    boost::asio::io_context context;
    boost::asio::ip::tcp::acceptor full(context);
    full.open(boost::asio::ip::tcp::v4());
    full.bind({boost::asio::ip::make_address("127.0.0.1"), 0});
    full.listen(0);
    std::vector<boost::asio::ip::tcp::socket> sockets;
    for (int i = 0; i < 4; ++i) {
      sockets.emplace_back(context, boost::asio::ip::tcp::v4());
      sockets.back().non_blocking(true);
      const auto endpoint = full.local_endpoint();  // not Asio's connect(), which waits
      ::connect(sockets.back().native_handle(), endpoint.data(),
                static_cast<socklen_t>(endpoint.size()));
    }
    Client client(HttpClientOptions{.address = {"127.0.0.1", full.local_endpoint().port(), ""},
                                    .connect_timeout = 30ms});
    const auto late = client.get("/");
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code == ErrorCode::kDeadlineExceeded);
    CHECK(late.error().message.find("waited for a connection for 30 ms") != std::string::npos);
  }

  TEST_CASE("responses that are not HTTP and endless heads are errors") {
    CHECK(answer_to("220 smtp.example.org ESMTP\r\n\r\n").error().code == ErrorCode::kUnavailable);
    CHECK(answer_to(std::string(100, '\0')).error().code == ErrorCode::kUnavailable);
    CHECK(answer_to("").error().code == ErrorCode::kUnavailable);
    CHECK(answer_to("HTTP/1.1 101 Switching Protocols\r\n\r\n").error().code ==
          ErrorCode::kUnavailable);
    ScriptedServer endless([](Peer& peer) {
      peer.next_request();
      peer.send("HTTP/1.1 200 OK\r\n");
      while (peer.send("X: " + std::string(1000, 'x') + "\r\n")) {
      }
    });
    Client client(endless.address());
    CHECK(client.get("/").error().code == ErrorCode::kTooLarge);
    ScriptedServer interim([](Peer& peer) {
      peer.next_request();
      while (peer.send("HTTP/1.1 100 Continue\r\n\r\n")) {
      }
    });
    Client other(interim.address());
    CHECK(other.get("/").error().code == ErrorCode::kUnavailable);
  }

  TEST_CASE("a response that is larger than its bound is refused, announced or not") {
    const HttpRequest bounded{.max_response_bytes = 10};
    const std::string ok = "HTTP/1.1 200 OK\r\n";
    CHECK(answer_to(ok + "Content-Length: 10\r\n\r\n0123456789", bounded)->body == "0123456789");
    CHECK(answer_to(ok + "Content-Length: 11\r\n\r\n", bounded).error().code ==
          ErrorCode::kTooLarge);
    const std::string chunks = ok + "Transfer-Encoding: chunked\r\n\r\n8\r\n01234567\r\n";
    CHECK(answer_to(chunks + "2\r\n89\r\n0\r\n\r\n", bounded)->body == "0123456789");
    CHECK(answer_to(chunks + "3\r\n89a\r\n0\r\n\r\n", bounded).error().code ==
          ErrorCode::kTooLarge);
    CHECK(answer_to(ok + "\r\n0123456789", bounded)->body == "0123456789");  // until it closes
    CHECK(answer_to(ok + "\r\n0123456789a", bounded).error().code == ErrorCode::kTooLarge);
  }

  TEST_CASE("responses of every shape: interim ones, without a body, of a HEAD") {
    CHECK(answer_to("HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
              ->body == "x");
    CHECK(answer_to("HTTP/1.1 304 Not Modified\r\n\r\n")->status == 304);
    const auto head = answer_to("HTTP/1.1 200 OK\r\nContent-Length: 99\r\nX-A: b\r\n\r\n",
                                {.method = "HEAD", .max_response_bytes = 10});
    REQUIRE_MESSAGE(head.ok(), head.error().text());
    CHECK(head->body.empty());
    CHECK(header(*head, "X-A") == "b");
    CHECK(answer_to("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc").error().code ==
          ErrorCode::kUnavailable);
  }

  TEST_CASE("a response before the end of the request is read") {
    ScriptedServer server([](Peer& peer) {
      peer.send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      peer.next_request();
    });
    Client client(server.address());
    CHECK(client.client->call(post(std::string(1024 * 1024, 'x')))->status == 413);
  }

  TEST_CASE("a request that would say something else on the wire is not sent") {
    ScriptedServer server([](Peer& peer) { peer.echo(); });
    Client client(server.address());
    const HttpRequest bad[] = {
        {.method = "GET /x HTTP/1.1\r\nA:"},
        {.target = "/a b"},
        {.target = "/a\r\nHost: other"},
        {.target = "http://other/"},
        {.headers = {{"Authorization", "Bearer secret\n"}}},
        {.headers = {{"A\r\nB", "c"}}},
        {.headers = {{"content-length", "5"}}},
        {.headers = {{"Transfer-Encoding", "chunked"}}},
    };
    for (const HttpRequest& request : bad) {
      const auto refused = client.client->call(request);
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().code == ErrorCode::kInvalidArgument);
      CHECK(refused.error().message.find("secret") == std::string::npos);
    }
    CHECK(server.connections() == 0);
  }

  TEST_CASE("a host's name is looked up where looking up may block") {
    ScriptedServer server([](Peer& peer) { peer.echo(); });
    for (const bool elsewhere : {false, true}) {
      auto blocking = elsewhere ? std::make_unique<testing::ThreadExecutor>(1) : nullptr;
      Client client(HttpClientOptions{.address = {"localhost", server.address().port, ""},
                                      .blocking = blocking.get()});
      const auto response = client.get("/");
      REQUIRE_MESSAGE(response.ok(), response.error().text());
      Client nowhere(
          HttpClientOptions{.address = {std::string(300, 'x'), 1, ""}, .blocking = blocking.get()});
      CHECK(nowhere.get("/").error().code == ErrorCode::kInvalidArgument);
      blocking.reset();  // a look-up may hold its connection, whose io_context ends with the client
    }
  }

  TEST_CASE("without a server: refused for TCP, not found for a socket's path") {
    Address free;
    {
      const ScriptedServer gone([](Peer&) {});
      free = gone.address();
    }
    CHECK(Client(free).get("/").error().code == ErrorCode::kUnavailable);
    TemporaryDirectory folder;
    CHECK(Client(Address{"", 0, folder.file("x.sock")}).get("/").error().code ==
          ErrorCode::kNotFound);
  }
}

}  // namespace
