#include "server.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>

#include "http_call.hpp"

namespace bookstore {

namespace beast = boost::beast;
namespace http = beast::http;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

namespace {

struct Shop {
  HttpServerOptions options;
  long sold = 0;
  long restocked = 0;
  long unreported = 0;  // sold since the warehouse was last told
};

// The client's SPIFFE id, from the header that our own proxy sets and no client can forge.
std::string caller_of(const Request& request) {
  const std::string header(request["x-forwarded-client-cert"]);
  const auto begin = header.rfind("URI=");
  if (begin == std::string::npos) return "";
  return header.substr(begin + 4, header.find_first_of(";,", begin) - begin - 4);
}

Response answer(Shop& shop, const Request& request) {
  http::status status = http::status::ok;
  if (request.target() == "/buy-a-book/new") {
    ++shop.sold;
    ++shop.unreported;
  } else if (request.target() == "/restock-books" && request.method() == http::verb::post) {
    ++shop.restocked;
  } else if (request.target() != "/books-bought") {
    status = http::status::not_found;
  }
  Response response{status, request.version()};
  response.set(http::field::content_type, "application/json");
  response.keep_alive(request.keep_alive());
  response.body() = boost::json::serialize(boost::json::object{{"service", shop.options.service},
                                                               {"version", shop.options.version},
                                                               {"caller", caller_of(request)},
                                                               {"sold", shop.sold},
                                                               {"restocked", shop.restocked}});
  response.prepare_payload();
  return response;
}

asio::awaitable<void> converse_http(std::shared_ptr<Shop> shop, tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer;
  for (;;) {
    Request request;
    const auto [unread, received] = co_await http::async_read(stream, buffer, request, kUse);
    if (unread) co_return;
    Response response = answer(*shop, request);
    const auto [unsent, sent] = co_await http::async_write(stream, response, kUse);
    if (unsent || !request.keep_alive()) co_return;
  }
}

// Once a second, the warehouse hears of the books that were sold.
asio::awaitable<void> restock(std::shared_ptr<Shop> shop) {
  HttpConnection warehouse(*shop->options.restock, std::chrono::seconds(2));
  for (;;) {
    co_await sleep_until(std::chrono::steady_clock::now() + std::chrono::seconds(1));
    if (shop->unreported == 0) continue;
    const Outcome outcome = co_await warehouse.request(http::verb::post, "/restock-books",
                                                       std::to_string(shop->unreported));
    if (outcome.ok()) shop->unreported = 0;
  }
}

asio::awaitable<void> converse_ledger(tcp::socket socket) {
  std::string buffer;
  for (long line_number = 1;; ++line_number) {
    const auto [unread, length] = co_await asio::async_read_until(
        socket, asio::dynamic_buffer(buffer, 64 * 1024), '\n', kUse);
    if (unread) co_return;
    const std::string reply = std::to_string(line_number) + ' ' + buffer.substr(0, length);
    buffer.erase(0, length);
    const auto [unsent, sent] = co_await asio::async_write(socket, asio::buffer(reply), kUse);
    if (unsent) co_return;
  }
}

asio::awaitable<tcp::acceptor> listen(HostPort address) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  const auto found = resolver.resolve(address.host, address.port, tcp::resolver::passive);
  co_return tcp::acceptor(executor, found.begin()->endpoint());  // throws: reported by main
}

}  // namespace

asio::awaitable<void> serve_http(HttpServerOptions options) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::acceptor acceptor = co_await listen(options.listen);
  auto shop = std::make_shared<Shop>(Shop{std::move(options)});
  if (shop->options.restock) asio::co_spawn(executor, restock(shop), asio::detached);
  for (;;) {
    auto [failed, socket] = co_await acceptor.async_accept(kUse);
    if (!failed) asio::co_spawn(executor, converse_http(shop, std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> serve_ledger(HostPort address) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::acceptor acceptor = co_await listen(std::move(address));
  for (;;) {
    auto [failed, socket] = co_await acceptor.async_accept(kUse);
    if (!failed) asio::co_spawn(executor, converse_ledger(std::move(socket)), asio::detached);
  }
}

}  // namespace bookstore
