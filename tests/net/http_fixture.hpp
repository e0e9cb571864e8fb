// A server on real sockets, and clients that send bytes as they like.
#pragma once

#include <doctest/doctest.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "net/io_fixture.hpp"
#include "osm/net/http.hpp"
#include "osm/net/http_server.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/thread_executor.hpp"

namespace osm::net {

struct Server {
  IoThreads io;
  testing::ThreadExecutor handlers{2};
  testing::CapturingLog log;
  std::unique_ptr<HttpServer> server;

  Server() : Server(HttpServerOptions{}, nullptr) {}
  Server(HttpServerOptions options, Handler handler) {
    if (options.listen == Address{}) options.listen = *parse_address("127.0.0.1:0");
    if (!handler) {
      handler = [](const Request& request) {
        return text_response(request.method + ' ' + request.path + ' ' + request.body);
      };
    }
    auto started = HttpServer::start(options, io.executor, handlers, std::move(handler), log);
    REQUIRE_MESSAGE(started.ok(), started.error().text());
    server = std::move(*started);
  }

  Result<Response> call(std::string method, std::string target, std::string body = "") const {
    HttpCall call{server->address()};
    call.method = std::move(method);
    call.target = std::move(target);
    call.body = std::move(body);
    return http_call(call);
  }
};

// Bytes as they are on the wire.
struct RawConnection {
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket{context};

  explicit RawConnection(const Address& address) {
    socket.connect({boost::asio::ip::make_address(address.host), address.port});
  }
  void send(std::string_view text) {
    boost::asio::write(socket, boost::asio::buffer(text.data(), text.size()));
  }
  // Until the server closes.
  std::string read_all() {
    std::string text;
    boost::system::error_code error;
    boost::asio::read(socket, boost::asio::dynamic_buffer(text), error);
    return text;
  }
  std::string read_some() {
    std::string text(65536, '\0');
    boost::system::error_code error;
    text.resize(socket.read_some(boost::asio::buffer(text), error));
    return text;
  }
  // Empty: the server has closed the connection.
  std::string ask(const std::string& path) {
    boost::system::error_code error;
    const std::string text = "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
    boost::asio::write(socket, boost::asio::buffer(text), error);
    return error ? "" : read_some();
  }
};

}  // namespace osm::net
