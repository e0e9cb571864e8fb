// Bytes of strangers on an HTTP connection, and text of strangers in queries, labels and errors.
//
//   input: '0', how many bytes come at a time, then the bytes of a connection; '1', then a request
//   target; '2', then text that ends up in JSON and in an exposition.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <memory>
#include <string>

#include "base/utf8.hpp"
#include "fuzz/fuzz.hpp"
#include "net/http_session.hpp"
#include "osm/net/router.hpp"
#include "osm/runtime/prometheus_registry.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

class InlineExecutor final : public Executor {
 public:
  void post(std::function<void()> task) override { task(); }
  Subscription post_after(std::chrono::nanoseconds, std::function<void()>) override { return {}; }
};

std::string json_string(std::string_view text) {
  return boost::json::serialize(boost::json::string(to_utf8(text)));
}

net::Handler routes() {
  net::Router router;
  router.get("/health/alive", [](const net::Request&) { return net::text_response("alive\n"); })
      .get("/v1/policy/check",
           [](const net::Request& request) {
             const auto source = request.required("source");
             if (!source.ok()) return net::error_response(source.error());
             return net::json_response(json_string(*source));
           })
      .post("/v1/vm/bootstrap", [](const net::Request& request) {
        return net::json_response(json_string(request.body));
      });
  return router;
}

// One connection over a socket pair, on this thread alone.
class Connection {
 public:
  Connection() {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0,
            "sockets can be made");
    client_ = ends[0];
    net::StreamProtocol::socket socket(boost::asio::make_strand(io_),
                                       boost::asio::generic::stream_protocol(AF_UNIX, 0), ends[1]);
    context_ = std::make_shared<const net::SessionContext>(net::SessionContext{
        .options = {.listen = {}, .max_header_bytes = 2048, .max_body_bytes = 1024},
        .handler = routes(),
        .handlers = executor_,
        .log = [](LogLevel, std::string_view, std::vector<LogField>) {},
        .tls = nullptr,
        .begin_handler = [] { return true; },
        .handler_done = [] {},
        .became_idle = [] {},
        .take_room = [](const net::HttpSession*, std::size_t) { return net::Room::kTaken; },
        .hold = [](const net::HttpSession*, std::size_t) {},
        .give_back = [](std::size_t) {}});
    std::make_shared<net::HttpSession>(std::move(socket), context_, [this] {
      ended_ = true;
    })->run();
  }
  ~Connection() { ::close(client_); }
  Connection(const Connection&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty() && !ended_) {
      const ssize_t sent = ::send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN) break;  // the server closed
      turn();
    }
    turn();
  }

  // The peer says no more: the session must answer what it got, and end.
  std::string finish() {
    ::shutdown(client_, SHUT_WR);
    for (int turns = 0; turns < 1000 && !ended_; ++turns) turn();
    require(ended_, "a session ends when its peer has ended");
    drain();
    return std::move(received_);
  }

 private:
  void turn() {
    io_.restart();
    io_.poll();
    drain();
  }
  void drain() {
    std::array<char, 4096> buffer;
    for (;;) {
      const ssize_t got = ::recv(client_, buffer.data(), buffer.size(), 0);
      if (got <= 0) return;
      received_.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }

  boost::asio::io_context io_{1};
  InlineExecutor executor_;
  std::shared_ptr<const net::SessionContext> context_;
  int client_ = -1;
  bool ended_ = false;
  std::string received_;
};

void connect(Choices choices) {
  const std::size_t step = 1 + 16 * choices.below(256);
  std::string_view bytes = choices.rest();
  Connection connection;
  while (!bytes.empty()) {
    connection.send(bytes.substr(0, step));
    bytes.remove_prefix(std::min(step, bytes.size()));
  }
  const std::string answer = connection.finish();
  require(answer.empty() || answer.starts_with("HTTP/1.1 "), "an answer is HTTP", answer);
  require(answer.empty() || answer.find("X-Content-Type-Options: nosniff\r\n") != std::string::npos,
          "no browser guesses what an answer is", answer);
}

void parse(std::string_view target) {
  const auto request = net::parse_target(target);
  if (request.ok()) {
    require(request->path.starts_with('/') && request->path.find('?') == std::string::npos,
            "a path is a path", request->path);
    for (const auto& [name, value] : request->query) {
      const auto reread = net::parse_target("/?" + net::encode_query_text(name) + '=' +
                                            net::encode_query_text(value));
      require(reread.ok() && reread->query.size() == 1 && reread->query.begin()->first == name &&
                  reread->query.begin()->second == value,
              "a parameter reads back", target);
    }
  }
  require(net::decode_query_text(net::encode_query_text(target)) == std::string(target),
          "escaped text reads back", target);
}

void write(std::string_view text) {
  boost::system::error_code fault;
  const std::string json = json_string(text);
  (void)boost::json::parse(json, fault);
  require(!fault, "any text is JSON once it is written", json);
  for (const char c : json)
    require(static_cast<unsigned char>(c) >= 0x20, "JSON text is one line", json);
  const std::string error =
      net::error_response({ErrorCode::kInvalidArgument, std::string(text)}).body;
  (void)boost::json::parse(error, fault);
  require(!fault, "any error is JSON", error);

  net::PrometheusRegistry registry;
  registry.set(Gauge{"osm_problem", "1 for each problem", {"cause"}}, {{"cause", text}}, 1);
  const std::string exposition = registry.expose();
  std::size_t samples = 0;
  for (std::size_t at = 0; at < exposition.size();) {
    const auto end = exposition.find('\n', at);
    require(end != std::string::npos, "an exposition ends with its last line", exposition);
    const std::string_view line = std::string_view(exposition).substr(at, end - at);
    require(line.starts_with("# ") || line.starts_with("osm_problem"), "a label adds no line",
            exposition);
    if (line.starts_with("osm_problem{")) ++samples;
    at = end + 1;
  }
  require(samples == 1, "one sample is one line", exposition);
}

void run(Choices choices) {
  switch (choices.below(3)) {
    case 0:
      return connect(choices);
    case 1:
      return parse(choices.rest());
    default:
      return write(choices.rest());
  }
}

const bool kAdded = add("http", [](std::string_view input) { run(Choices(input)); });

}  // namespace
