// Requests are bounded in size, time and number, answers carry safe headers, and old connections
// end with a response.
#include "osm/net/http_server.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <future>
#include <vector>

#include "base/descriptor.hpp"
#include "net/http_fixture.hpp"
#include "osm/net/http.hpp"
#include "osm/net/router.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::net;

namespace {

using namespace std::chrono_literals;

std::string header(const Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return "";
}

TEST_SUITE("net::HttpServer") {
  TEST_CASE("a request reaches the handler and its response the client, with safe headers") {
    Server s;
    CHECK(s.server->address().port != 0);
    const auto response = s.call("POST", "/a/b?x=1", "body");
    REQUIRE_MESSAGE(response.ok(), response.error().text());
    CHECK(response->status == 200);
    CHECK(response->body == "POST /a/b body");
    CHECK(response->content_type == "text/plain; charset=utf-8");
    CHECK(header(*response, "X-Content-Type-Options") == "nosniff");
    CHECK(header(*response, "Cache-Control") == "no-store");
  }

  TEST_CASE("the handler sees the content type as it was sent") {
    std::string seen;
    Server s({}, [&](const Request& request) {
      seen = request.content_type;
      return text_response("");
    });
    HttpCall call{s.server->address()};
    call.method = "POST";
    call.body = "{}";
    call.content_type = "Application/JSON; charset=utf-8";
    REQUIRE(http_call(call).ok());
    CHECK(seen == "Application/JSON; charset=utf-8");
  }

  TEST_CASE("the handler is told who the client is") {
    const Handler who = [](const Request& request) { return text_response(request.client); };
    const Server tcp({}, who);
    const auto answer = tcp.call("GET", "/");
    REQUIRE(answer.ok());
    const auto address = parse_address(answer->body);
    REQUIRE_MESSAGE(address.ok(), answer->body);
    CHECK(address->host == "127.0.0.1");
    CHECK(address->port != tcp.server->address().port);
    testing::TemporaryDirectory directory;
    const Server local({.listen = {.unix_path = directory.file("socket")}}, who);
    CHECK(local.call("GET", "/")->body == "uid " + std::to_string(::geteuid()));
  }

  TEST_CASE("a media type is recognized in any case and with any parameters, and no other is") {
    for (const char* type : {"application/json", "Application/JSON", " application/json ;a=b",
                             "application/json;charset=utf-8"})
      CHECK_MESSAGE(has_media_type(type, "application/json"), type);
    for (const char* type : {"", ";", "application/jsonp", "application/json, text/html",
                             "text/plain; application/json", "application/merge-patch+json"})
      CHECK_FALSE_MESSAGE(has_media_type(type, "application/json"), type);
  }

  TEST_CASE("query parameters arrive decoded") {
    std::map<std::string, std::string> seen;
    Server s({}, [&](const Request& request) {
      seen = request.query;
      return text_response("");
    });
    REQUIRE(s.call("GET", "/?source=ns%2Faccount&empty=&flag&a=b+c").ok());
    CHECK(seen == std::map<std::string, std::string>{
                      {"source", "ns/account"}, {"empty", ""}, {"flag", ""}, {"a", "b c"}});
    CHECK(s.call("GET", "/?x=%zz")->status == 400);
    CHECK(s.call("GET", "/?x=%2")->status == 400);
  }

  TEST_CASE("one connection carries many requests") {
    Server s;
    RawConnection connection(s.server->address());
    for (int i = 0; i < 3; ++i) {
      connection.send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n");
      const std::string response = connection.read_some();
      CHECK(response.starts_with("HTTP/1.1 200"));
      CHECK(response.ends_with("GET /" + std::to_string(i) + ' '));
    }
    // Two at once, the last of which closes.
    connection.send(
        "GET /x HTTP/1.1\r\nHost: x\r\n\r\nGET /y HTTP/1.1\r\nConnection: close\r\n\r\n");
    const std::string both = connection.read_all();
    CHECK(both.find("GET /x ") != std::string::npos);
    CHECK(both.ends_with("GET /y "));
  }

  TEST_CASE("a HEAD gets the headers of the GET and no body") {
    Server s;
    RawConnection connection(s.server->address());
    connection.send("HEAD /h HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    const std::string response = connection.read_all();
    CHECK(response.starts_with("HTTP/1.1 200"));
    CHECK(response.find("Content-Length: 7\r\n") != std::string::npos);
    CHECK(response.ends_with("\r\n\r\n"));
  }

  TEST_CASE("bad HTTP gets 400; headers and bodies beyond the limits get 431 and 413") {
    HttpServerOptions options;
    options.max_header_bytes = 1024;
    options.max_body_bytes = 10;
    std::atomic<int> handled{0};
    Server s(options, [&](const Request&) {
      ++handled;
      return text_response("");
    });
    {
      RawConnection connection(s.server->address());
      connection.send("this is not http\r\n\r\n");
      CHECK(connection.read_all().starts_with("HTTP/1.1 400"));
    }
    {
      RawConnection connection(s.server->address());
      connection.send("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n");
      CHECK(connection.read_all().starts_with("HTTP/1.1 431"));
    }
    {
      RawConnection connection(s.server->address());
      std::string fields;
      for (int i = 0; i < 201; ++i) fields += "X:\r\n";
      connection.send("GET / HTTP/1.1\r\n" + fields + "\r\n");
      CHECK(connection.read_all().starts_with("HTTP/1.1 431"));
    }
    CHECK(s.call("POST", "/", std::string(11, 'x'))->status == 413);
    CHECK(handled == 0);
    CHECK(s.call("POST", "/", std::string(10, 'x'))->status == 200);
    CHECK(handled == 1);
  }

  TEST_CASE("a client that does not send its request is dropped, and so is one that idles") {
    HttpServerOptions options;
    options.io_timeout = 1s;
    options.idle_timeout = 1s;
    Server s(options, nullptr);
    RawConnection half(s.server->address());
    half.send("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab");
    RawConnection idle(s.server->address());
    CHECK(half.read_all().empty());
    CHECK(idle.read_all().empty());
  }

  TEST_CASE("a header that stays unfinished ends the connection long before one that idles") {
    HttpServerOptions options;
    options.io_timeout = 1s;
    options.idle_timeout = 1h;
    Server s(options, nullptr);
    RawConnection half(s.server->address());
    half.send("GET / HTTP/1.1\r\nX-");
    CHECK(half.read_all().empty());
  }

  TEST_CASE("a connection that never begins a request is closed sooner than one between requests") {
    HttpServerOptions options;
    options.first_timeout = 1s;
    options.idle_timeout = 1h;
    Server s(options, nullptr);
    // A busy machine may close it before its first request.
    std::unique_ptr<RawConnection> used;
    REQUIRE(testing::wait_until([&] {
      used = std::make_unique<RawConnection>(s.server->address());
      return used->ask("/1").ends_with("GET /1 ");
    }));
    RawConnection silent(s.server->address());
    CHECK(silent.read_all().empty());
    CHECK(used->ask("/2").ends_with("GET /2 "));
  }

  TEST_CASE("a handler ends a connection with its response by the header Connection: close") {
    Server s({}, [](const Request& request) {
      Response response = text_response(request.path);
      if (request.path == "/last") response.headers.emplace_back("Connection", "close");
      return response;
    });
    RawConnection client(s.server->address());
    client.send("GET /first HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string first = client.read_some();
    CHECK(first.ends_with("/first"));
    CHECK(first.find("Connection: close") == std::string::npos);
    client.send("GET /last HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string last = client.read_all();
    CHECK(last.ends_with("/last"));
    CHECK(last.find("\r\nConnection: close\r\n") != std::string::npos);
  }

  TEST_CASE("a connection older than its bound ends with its next response, and not before") {
    HttpServerOptions options;
    options.max_age = 1s;
    Server s(options, nullptr);
    const auto opened = std::chrono::steady_clock::now();
    RawConnection client(s.server->address());
    for (std::string answer; answer.find("\r\nConnection: close\r\n") == std::string::npos;) {
      answer = client.ask("/again");
      REQUIRE(answer.ends_with("GET /again "));
    }
    CHECK(std::chrono::steady_clock::now() - opened >= 1s);
    CHECK(client.read_all().empty());
  }

  TEST_CASE(
      "beyond the bound, a new connection replaces the oldest one without a running request") {
    HttpServerOptions options;
    options.max_connections = 3;
    options.first_timeout = options.io_timeout = options.idle_timeout = 1h;
    Server s(options, nullptr);
    std::vector<std::unique_ptr<RawConnection>> idle;
    for (int i = 0; i < 3; ++i) {
      idle.push_back(std::make_unique<RawConnection>(s.server->address()));
      if (i == 1) idle.back()->send("GET /slow HTTP/1.1\r\n");  // half a request is no request
      if (i == 2) {
        idle.back()->send("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
        REQUIRE(idle.back()->read_some().ends_with("GET /2 "));
      }
    }
    for (int i = 0; i < 2; ++i) {
      RawConnection next(s.server->address());
      next.send("GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      CHECK(next.read_all().ends_with("GET /3 "));
    }
    CHECK(idle[0]->read_all().empty());
    idle[2]->send("GET /4 HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(idle[2]->read_some().ends_with("GET /4 "));
  }

  TEST_CASE("clients that do not take their responses do not keep new ones out") {
    HttpServerOptions options;
    options.max_connections = 3;
    options.first_timeout = options.io_timeout = options.idle_timeout = 1h;
    Server s(options, [](const Request& request) {
      return text_response(request.path == "/large" ? std::string(32 << 20, 'x') : "small");
    });
    std::vector<std::unique_ptr<RawConnection>> slow;
    for (int i = 0; i < 3; ++i) {
      slow.push_back(std::make_unique<RawConnection>(s.server->address()));
      slow.back()->send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
      REQUIRE(slow.back()->read_some().starts_with("HTTP/1.1 200"));
    }
    for (int i = 0; i < 3; ++i) {
      RawConnection next(s.server->address());
      next.send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      CHECK(next.read_all().ends_with("small"));
    }
  }

  TEST_CASE("if every connection has a running request, a new one waits") {
    HttpServerOptions options;
    options.max_connections = 1;
    std::promise<void> begun, release;
    std::shared_future<void> released = release.get_future().share();
    Server s(options, [&begun, released](const Request& request) {
      if (request.path == "/1") {
        begun.set_value();
        released.wait();
      }
      return text_response(request.path);
    });
    RawConnection first(s.server->address());
    first.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
    begun.get_future().wait();
    RawConnection second(s.server->address());
    second.send("GET /2 HTTP/1.1\r\nConnection: close\r\n\r\n");
    pollfd answered{second.socket.native_handle(), POLLIN, 0};
    CHECK(::poll(&answered, 1, 50) == 0);
    release.set_value();
    CHECK(first.read_some().ends_with("/1"));
    CHECK(second.read_all().ends_with("/2"));
  }

  TEST_CASE("a handler that throws is a 500 without its text, which only the log has") {
    Server s({}, [](const Request&) -> Response { throw std::runtime_error("the secret"); });
    const auto response = s.call("GET", "/x");
    REQUIRE(response.ok());
    CHECK(response->status == 500);
    CHECK(response->body.find("the secret") == std::string::npos);
    CHECK(s.log.count("the secret") == 1);
  }

  TEST_CASE("lines that clients cause are bounded") {
    Server s({}, [](const Request&) -> Response { throw std::runtime_error("always"); });
    for (int i = 0; i < 30; ++i) CHECK(s.call("GET", "/x")->status == 500);
    CHECK(s.log.count("an HTTP handler failed") >= 10);
    CHECK(s.log.count("an HTTP handler failed") < 20);
  }

  TEST_CASE("stop lets a running request finish, closes idle connections and refuses new ones") {
    std::promise<void> started;
    std::promise<void> release;
    Server s({}, [&](const Request&) {
      started.set_value();
      release.get_future().wait();
      return text_response("finished");
    });
    RawConnection idle(s.server->address());
    auto running = std::async(std::launch::async, [&] { return s.call("GET", "/slow"); });
    started.get_future().wait();
    auto stopping = std::async(std::launch::async, [&] { return s.server->stop(10s); });
    CHECK(idle.read_all().empty());
    CHECK(s.call("GET", "/late").error().code == ErrorCode::kUnavailable);
    release.set_value();
    const auto response = running.get();
    REQUIRE_MESSAGE(response.ok(), response.error().text());
    CHECK(response->body == "finished");
    CHECK(stopping.get().ok());
    CHECK(s.server->stop(0ms).ok());
  }

  TEST_CASE("stop cuts connections after the deadline and reports it, when no handler runs") {
    std::promise<void> started;
    std::promise<void> release;
    std::atomic<bool> handled{false};
    Server s({}, [&](const Request&) {
      started.set_value();
      release.get_future().wait();
      handled = true;
      return text_response("late");
    });
    auto running = std::async(std::launch::async, [&] { return s.call("GET", "/slow"); });
    started.get_future().wait();
    auto stopping = std::async(std::launch::async, [&] { return s.server->stop(1ms); });
    CHECK_FALSE(running.get().ok());  // cut while its handler still runs
    release.set_value();
    const Status stopped = stopping.get();
    CHECK(handled);
    REQUIRE_FALSE(stopped.ok());
    CHECK(stopped.error().code == ErrorCode::kDeadlineExceeded);
  }

  TEST_CASE("a port that is taken is an error that says so") {
    Server s;
    HttpServerOptions options;
    options.listen = s.server->address();
    const auto second = HttpServer::start(
        options, s.io.executor, s.handlers, [](const Request&) { return Response{}; }, s.log);
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == ErrorCode::kUnavailable);
    CHECK(second.error().message.find("another process listens there") != std::string::npos);
    options.listen = *parse_address("192.0.2.1:0");
    CHECK(HttpServer::start(options, s.io.executor, s.handlers, nullptr, s.log).error().code ==
          ErrorCode::kInvalidArgument);
  }

  TEST_CASE("a Unix socket is for its owner only, and its file goes away with the server") {
    TemporaryDirectory folder;
    const std::string path = folder.file("admin.sock");
    HttpServerOptions options;
    options.listen = Address{"", 0, path};
    {
      Server s(options, nullptr);
      struct stat status {};
      REQUIRE(::stat(path.c_str(), &status) == 0);
      CHECK((status.st_mode & 07777) == 0600);
      CHECK(s.call("GET", "/unix")->body == "GET /unix ");
    }
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(http_call({options.listen}).error().code == ErrorCode::kNotFound);
  }

  TEST_CASE("a process of another user is refused even if it gets to connect") {
    REQUIRE_MESSAGE(::geteuid() == 0, "only root can become somebody else: run the tests as root");
    TemporaryDirectory folder;
    const std::string path = folder.file("admin.sock");
    std::atomic<int> handled{0};
    HttpServerOptions options;
    options.listen = Address{"", 0, path};
    Server s(options, [&](const Request&) {
      ++handled;
      return text_response("");
    });
    ::chmod(folder.path().c_str(), 0755);
    ::chmod(path.c_str(), 0666);  // what a careless administrator might do
    const pid_t child = ::fork();
    if (child == 0) {  // only async-signal-safe calls from here
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path, path.c_str(), path.size());
      if (::setresuid(65534, 65534, 65534) != 0) ::_exit(3);
      const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
      if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) ::_exit(4);
      const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
      if (::send(fd, text, sizeof text - 1, MSG_NOSIGNAL) < 0) ::_exit(0);
      char byte = 0;
      ::_exit(::read(fd, &byte, 1) > 0 ? 1 : 0);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(handled == 0);
    CHECK(s.log.count("another user") == 1);
    CHECK(s.call("GET", "/")->status == 200);
  }

  TEST_CASE("a socket left behind is replaced; one that is served, or a file, is not") {
    TemporaryDirectory folder;
    const std::string path = folder.file("admin.sock");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const int abandoned = ::socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(::bind(abandoned, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    ::close(abandoned);

    HttpServerOptions options;
    options.listen = Address{"", 0, path};
    Server s(options, nullptr);
    CHECK(s.call("GET", "/")->status == 200);
    const auto handler = [](const Request&) { return Response{}; };
    const auto second = HttpServer::start(options, s.io.executor, s.handlers, handler, s.log);
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == ErrorCode::kUnavailable);
    CHECK(s.call("GET", "/")->status == 200);

    // Its process lives, and accepts nothing: its queue is full.
    options.listen.unix_path = folder.file("hung.sock");
    std::memset(address.sun_path, 0, sizeof address.sun_path);
    options.listen.unix_path.copy(address.sun_path, sizeof address.sun_path - 1);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    const Descriptor hung(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    REQUIRE(::bind(hung.get(), to, sizeof address) == 0);
    REQUIRE(::listen(hung.get(), 0) == 0);
    std::vector<Descriptor> waiting;
    do {
      waiting.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    } while (waiting.size() < 100 && ::connect(waiting.back().get(), to, sizeof address) == 0);
    CHECK(HttpServer::start(options, s.io.executor, s.handlers, handler, s.log).error().code ==
          ErrorCode::kUnavailable);

    options.listen.unix_path = folder.file("not-a-socket");
    const int file = ::open(options.listen.unix_path.c_str(), O_CREAT | O_WRONLY, 0600);
    ::close(file);
    CHECK_FALSE(HttpServer::start(options, s.io.executor, s.handlers, handler, s.log).ok());
    CHECK(std::filesystem::exists(options.listen.unix_path));
    options.listen.unix_path = folder.file("missing/admin.sock");
    CHECK(HttpServer::start(options, s.io.executor, s.handlers, handler, s.log).error().code ==
          ErrorCode::kStorage);
    options.listen.unix_path = folder.file(std::string(200, 'x'));
    const auto too_long = HttpServer::start(options, s.io.executor, s.handlers, handler, s.log);
    REQUIRE_FALSE(too_long.ok());
    CHECK(too_long.error().message.find("longer than 107 bytes") != std::string::npos);
    const auto unreachable = http_call({.address = options.listen});
    REQUIRE_FALSE(unreachable.ok());
    CHECK(unreachable.error().code == ErrorCode::kInvalidArgument);
  }

  TEST_CASE("many clients at once are all answered") {
    Server s;
    std::vector<std::future<int>> calls;
    for (int i = 0; i < 16; ++i) {
      calls.push_back(std::async(std::launch::async, [&] {
        int good = 0;
        for (int n = 0; n < 20; ++n) {
          const auto response = s.call("GET", "/" + std::to_string(n));
          good += response.ok() && response->body == "GET /" + std::to_string(n) + ' ';
        }
        return good;
      }));
    }
    for (auto& call : calls) CHECK(call.get() == 20);
  }
}

TEST_SUITE("net::Router") {
  TEST_CASE("exact paths and methods are handled; others get 404 and 405 with a list") {
    Router router;
    router.get("/v1/a", [](const Request&) { return text_response("a"); })
        .post("/v1/b", [](const Request&) { return text_response("b"); });
    CHECK(router(Request{"GET", "/v1/a", {}, ""}).body == "a");
    const Response missing = router(Request{"GET", "/v1/a/", {}, ""});
    CHECK(missing.status == 404);
    CHECK(missing.body.find("/v1/a, /v1/b") != std::string::npos);
    const Response wrong = router(Request{"GET", "/v1/b", {}, ""});
    CHECK(wrong.status == 405);
    CHECK(wrong.headers.front() == std::pair<std::string, std::string>("Allow", "POST"));
  }

  TEST_CASE("an error's response carries its code, and the status that fits") {
    const Response response = error_response({ErrorCode::kUnknownProxy, "no \"x\"\n"});
    CHECK(response.status == 404);
    CHECK(response.body ==
          "{\"error\":{\"code\":\"unknown-proxy\",\"message\":\"no \\\"x\\\"\\n\"}}\n");
    CHECK(http_status(ErrorCode::kInvalidArgument) == 400);
    CHECK(http_status(ErrorCode::kNotReady) == 503);
    CHECK(http_status(ErrorCode::kInternal) == 500);
  }
}

TEST_SUITE("net::http_call") {
  TEST_CASE("a closed port, an unknown host and a silent server have different errors") {
    Address closed;
    {
      Server s;
      closed = s.server->address();
    }
    CHECK(http_call({closed}).error().code == ErrorCode::kUnavailable);
    CHECK(http_call({*parse_address("no-such-host.invalid:1")}).error().code ==
          ErrorCode::kInvalidArgument);
    std::promise<void> release;
    Server s({}, [&, gate = release.get_future().share()](const Request&) {
      gate.wait();
      return Response{};
    });
    HttpCall call{s.server->address()};
    call.deadline = 50ms;
    const auto late = http_call(call);
    CHECK(late.error().code == ErrorCode::kDeadlineExceeded);
    CHECK(late.error().message.find("50 ms") != std::string::npos);
    release.set_value();
  }
}

}  // namespace
