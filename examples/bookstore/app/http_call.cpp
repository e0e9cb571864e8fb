#include "http_call.hpp"

#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

namespace bookstore {

namespace beast = boost::beast;
namespace http = beast::http;

asio::awaitable<std::string> HttpConnection::connect() {
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  const auto [unresolved, addresses] =
      co_await resolver.async_resolve(target_.host, target_.port, kUse);
  if (unresolved) co_return "resolve: " + unresolved.message();
  buffer_.clear();
  stream_.emplace(executor);
  stream_->expires_after(timeout_);
  const auto [refused, peer] = co_await stream_->async_connect(addresses, kUse);
  if (refused) {
    stream_.reset();
    co_return "connect: " + refused.message();
  }
  ++connections_;
  co_return "";
}

asio::awaitable<Outcome> HttpConnection::request(http::verb verb, const std::string& path,
                                                 const std::string& body) {
  Outcome outcome;
  if (!stream_) {
    outcome.error = co_await connect();
    if (!outcome.error.empty()) co_return outcome;
  }
  http::request<http::string_body> request{verb, path, 11};
  request.set(http::field::host, target_.host + ':' + target_.port);
  request.set(http::field::user_agent, "bookstore");
  request.body() = body;
  request.prepare_payload();
  stream_->expires_after(timeout_);
  const auto [unsent, sent] = co_await http::async_write(*stream_, request, kUse);
  if (unsent) {
    outcome.error = "send: " + unsent.message();
    stream_.reset();
    co_return outcome;
  }
  http::response<http::string_body> response;
  const auto [unread, received] = co_await http::async_read(*stream_, buffer_, response, kUse);
  if (unread) {
    outcome.error = "receive: " + unread.message();
    stream_.reset();
    co_return outcome;
  }
  outcome.status = response.result_int();
  outcome.body = response.body();
  if (!response.keep_alive()) stream_.reset();
  co_return outcome;
}

}  // namespace bookstore
