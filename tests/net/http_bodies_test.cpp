// Bodies are refused before they are read, and all of a server's together stay within a bound.
#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "net/http_fixture.hpp"

using namespace osm;
using namespace osm::net;
using namespace std::chrono_literals;

namespace {

TEST_SUITE("net::HttpServer, bodies") {
  TEST_CASE("a server whose requests have no body refuses one at its header") {
    HttpServerOptions options;
    options.max_body_bytes = 0;
    Server s(options, nullptr);
    for (const char* body : {"Content-Length: 1048576\r\n\r\n", "Content-Length: 1\r\n\r\nx",
                             "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"}) {
      RawConnection connection(s.server->address());
      connection.send(std::string("POST / HTTP/1.1\r\nHost: x\r\n") + body);
      const std::string answer = connection.read_all();
      CHECK(answer.starts_with("HTTP/1.1 413"));
      CHECK(answer.find("requests have no body here") != std::string::npos);
    }
    CHECK(s.call("POST", "/x")->body == "POST /x ");
  }

  TEST_CASE("a check of the head refuses a request before its body, and may name the client") {
    HttpServerOptions options;
    options.check_head = [](Request& head) -> std::optional<Response> {
      if (head.path == "/throws") throw std::runtime_error("the secret");
      if (head.header("x-token").empty()) return text_response("no token", 403);
      head.client = "somebody";
      return std::nullopt;
    };
    std::atomic<int> handled{0};
    Server s(options, [&](const Request& request) {
      ++handled;
      return text_response(request.client + ' ' + request.body);
    });
    {
      RawConnection connection(s.server->address());
      connection.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
      const std::string answer = connection.read_all();  // it ends, without the body
      CHECK(answer.starts_with("HTTP/1.1 403"));
      CHECK(answer.ends_with("no token"));
    }
    {
      RawConnection connection(s.server->address());
      connection.send("GET /throws HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      CHECK(connection.read_all().starts_with("HTTP/1.1 500"));
    }
    // A client that sends its body before it reads sees the response, and no reset.
    CHECK(s.call("POST", "/", std::string(500'000, 'x'))->status == 403);
    CHECK(handled == 0);
    RawConnection connection(s.server->address());
    connection.send(
        "POST / HTTP/1.1\r\nHost: x\r\nX-Token: t\r\nContent-Length: 5\r\n"
        "Connection: close\r\n\r\nhello");
    CHECK(connection.read_all().ends_with("somebody hello"));
    CHECK(handled == 1);
  }

  TEST_CASE("beyond the bound of all bodies, slow ones give way to one that arrives") {
    HttpServerOptions options;
    options.max_body_bytes = 100'000;
    options.max_bodies_bytes = 300'000;
    options.io_timeout = 1h;
    Server s(options, [](const Request& request) {
      return text_response(std::to_string(request.body.size()));
    });
    std::vector<std::unique_ptr<RawConnection>> slow;
    for (int i = 0; i < 20; ++i) {
      slow.push_back(std::make_unique<RawConnection>(s.server->address()));
      slow.back()->send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" +
                        std::string(99'999, 'x'));
    }
    // A request that gets no core for half a second is a slow one itself: it is told so, or cut.
    const auto answer = [&] {
      Result<Response> response = s.call("POST", "/", std::string(100'000, 'x'));
      const auto gave_way = [&] { return !response.ok() || response->status == 503; };
      for (int again = 0; gave_way() && again < 5; ++again)
        response = s.call("POST", "/", std::string(100'000, 'x'));
      return response.ok() ? response->body : response.error().text();
    };
    for (int i = 0; i < 3; ++i) CHECK(answer() == "100000");
    // Not all 20 were read: they would take 2 MB.
    CHECK(std::any_of(slow.begin(), slow.end(), [](const auto& connection) {
      pollfd closed{connection->socket.native_handle(), POLLIN, 0};
      return ::poll(&closed, 1, 0) == 1;
    }));
  }

  TEST_CASE("beyond the bound of all bodies, responses that are not taken give way to a new one") {
    HttpServerOptions options;
    options.max_bodies_bytes = 100 << 20;
    options.io_timeout = 1h;
    Server s(options, [](const Request&) { return text_response(std::string(32 << 20, 'x')); });
    std::vector<std::unique_ptr<RawConnection>> slow;
    for (int i = 0; i < 4; ++i) {
      slow.push_back(std::make_unique<RawConnection>(s.server->address()));
      slow.back()->send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      REQUIRE(slow.back()->read_some().starts_with("HTTP/1.1 200"));
    }
    // Three of the four responses fit.
    CHECK(slow[0]->read_all().size() < 32 << 20);
    CHECK(slow[3]->read_all().size() > 31 << 20);
  }

  TEST_CASE("many bodies at once wait for each other, and all are answered") {
    HttpServerOptions options;
    options.max_body_bytes = 100'000;
    options.max_bodies_bytes = 100'000;
    options.io_timeout = 60s;
    Server s(options, [](const Request& request) {
      return text_response(std::to_string(request.body.size()));
    });
    std::vector<std::future<Result<Response>>> answers;
    for (std::size_t i = 1; i <= 8; ++i)
      answers.push_back(std::async(std::launch::async, [&s, i] {
        return s.call("POST", "/", std::string(i * 12'000, 'x'));
      }));
    for (std::size_t i = 1; i <= 8; ++i)
      CHECK(answers[i - 1].get()->body == std::to_string(i * 12'000));
  }
}

}  // namespace
