#include "buyer.hpp"

#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>

#include "http_call.hpp"

namespace bookstore {
namespace {

void report(const Outcome& outcome) {
  boost::json::object line{{"t", wall_seconds()}, {"status", outcome.status}};
  line["version"] = "";
  line["caller"] = "";
  line["error"] = outcome.error;
  boost::system::error_code failed;
  const auto body = boost::json::parse(outcome.body, failed);
  if (!failed && body.is_object()) {
    for (const char* key : {"version", "caller"}) {
      if (const auto* value = body.as_object().if_contains(key)) line[key] = *value;
    }
  }
  std::cout << boost::json::serialize(line) << std::endl;
}

asio::awaitable<Outcome> write_line(const BuyerOptions& options) {
  const auto executor = co_await asio::this_coro::executor;
  Outcome outcome;
  tcp::resolver resolver(executor);
  const auto [unresolved, addresses] =
      co_await resolver.async_resolve(options.target.host, options.target.port, kUse);
  if (unresolved) {
    outcome.error = "resolve: " + unresolved.message();
    co_return outcome;
  }
  boost::beast::tcp_stream stream(executor);
  stream.expires_after(options.timeout);
  const auto [refused, peer] = co_await stream.async_connect(addresses, kUse);
  if (refused) {
    outcome.error = "connect: " + refused.message();
    co_return outcome;
  }
  const std::string line = "a book\n";
  const auto [unsent, sent] = co_await asio::async_write(stream, asio::buffer(line), kUse);
  std::string reply;
  const auto [unread, received] =
      co_await asio::async_read_until(stream, asio::dynamic_buffer(reply), '\n', kUse);
  if (unsent || unread) {
    outcome.error = unsent ? "send: " + unsent.message() : "receive: " + unread.message();
  } else if (reply == "1 a book\n") {
    outcome.status = 200;
  } else {
    outcome.error = "receive: not the reply";
  }
  co_return outcome;
}

}  // namespace

asio::awaitable<void> buy(BuyerOptions options) {
  HttpConnection shop(options.target, options.timeout);
  for (;;) {
    const auto next = std::chrono::steady_clock::now() + options.interval;
    const Outcome outcome = co_await shop.request(boost::beast::http::verb::get, options.path);
    report(outcome);
    co_await sleep_until(next);
  }
}

asio::awaitable<void> write_ledger(BuyerOptions options) {
  for (;;) {
    const auto next = std::chrono::steady_clock::now() + options.interval;
    const Outcome outcome = co_await write_line(options);
    report(outcome);
    co_await sleep_until(next);
  }
}

}  // namespace bookstore
