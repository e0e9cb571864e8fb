#include "load.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <vector>

#include "http_call.hpp"

namespace bookstore {

using Clock = std::chrono::steady_clock;

struct Load::State {
  struct Second {
    int requests = 0;  // answered with 2xx
    int lines = 0;     // echoed right
  };
  struct Failure {
    double at;
    std::string what;
  };

  LoadOptions options;
  Clock::time_point started = Clock::now();
  std::map<long, Second> seconds;
  std::vector<Failure> failures;
  std::vector<float> latencies_ms;
  std::vector<int> http_connections;
  int tcp_connections = 0;

  Second& now() { return seconds[static_cast<long>(wall_seconds())]; }
  void fail(std::string what) { failures.push_back({wall_seconds(), std::move(what)}); }
};

Load::Load(LoadOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->http_connections.resize(static_cast<std::size_t>(state_->options.connections));
}

Load::~Load() = default;

void Load::start(asio::io_context& context) {
  for (int i = 0; i < state_->options.connections; ++i) {
    asio::co_spawn(context, request_loop(i), asio::detached);
  }
  for (int i = 0; i < state_->options.streams; ++i) {
    asio::co_spawn(context, stream_loop(i), asio::detached);
  }
  asio::co_spawn(context, report_loop(), asio::detached);
}

asio::awaitable<void> Load::request_loop(int index) {
  const auto self = shared_from_this();
  State& state = *state_;
  const auto period = std::chrono::nanoseconds(std::chrono::seconds(state.options.connections)) /
                      state.options.rate;
  HttpConnection connection(state.options.http, state.options.timeout);
  auto next = state.started + period * index / state.options.connections;
  for (;;) {
    co_await sleep_until(next);
    const auto begin = Clock::now();
    const Outcome outcome =
        co_await connection.request(boost::beast::http::verb::get, state.options.path);
    const auto end = Clock::now();
    state.latencies_ms.push_back(std::chrono::duration<float, std::milli>(end - begin).count());
    state.http_connections[static_cast<std::size_t>(index)] = connection.connections();
    if (outcome.ok()) {
      ++state.now().requests;
    } else {
      state.fail("http: " + (outcome.status != 0 ? "status " + std::to_string(outcome.status)
                                                 : outcome.error));
    }
    // Makes up for requests that a stall of up to a second delayed.
    next = std::max(next + period, end - std::chrono::seconds(1));
  }
}

asio::awaitable<void> Load::stream_loop(int index) {
  const auto self = shared_from_this();
  State& state = *state_;
  const auto executor = co_await asio::this_coro::executor;
  const auto& target = state.options.ledger;
  for (;;) {  // one round per connection: a second one means that the first was lost
    co_await sleep_until(Clock::now() + std::chrono::milliseconds(50));
    tcp::resolver resolver(executor);
    const auto [unresolved, addresses] =
        co_await resolver.async_resolve(target.host, target.port, kUse);
    boost::beast::tcp_stream stream(executor);
    stream.expires_after(state.options.timeout);
    auto [failed, peer] = co_await stream.async_connect(addresses, kUse);
    if (!failed) ++state.tcp_connections;
    std::string buffer;
    for (long line = 1; !failed; ++line) {
      const std::string text = "stream " + std::to_string(index) + '\n';
      stream.expires_after(state.options.timeout);
      const auto [unsent, sent] = co_await asio::async_write(stream, asio::buffer(text), kUse);
      const auto [unread, length] =
          co_await asio::async_read_until(stream, asio::dynamic_buffer(buffer), '\n', kUse);
      failed = unsent ? unsent : unread;
      if (failed) break;
      if (buffer.substr(0, length) == std::to_string(line) + ' ' + text) {
        ++state.now().lines;
      } else {
        state.fail("tcp: wrong reply");
      }
      buffer.erase(0, length);
      co_await sleep_until(Clock::now() + std::chrono::milliseconds(50));
    }
    state.fail("tcp: " + failed.message());
  }
}

asio::awaitable<void> Load::report_loop() {
  const auto self = shared_from_this();
  for (;;) {
    co_await sleep_until(Clock::now() + std::chrono::milliseconds(500));
    write_report();
  }
}

void Load::write_report() const {
  const State& state = *state_;
  boost::json::array seconds;
  for (const auto& [second, counts] : state.seconds) {
    seconds.push_back({{"t", second}, {"requests", counts.requests}, {"lines", counts.lines}});
  }
  boost::json::array failures;
  for (const auto& failure : state.failures) {
    failures.push_back({{"t", failure.at}, {"what", failure.what}});
  }
  std::vector<float> sorted = state.latencies_ms;
  std::sort(sorted.begin(), sorted.end());
  const auto quantile = [&](double q) {
    return sorted.empty() ? 0.F : sorted[static_cast<std::size_t>(q * double(sorted.size() - 1))];
  };
  int http_connections = 0;
  for (const int opened : state.http_connections) http_connections += opened;
  write_file(state.options.report,
             boost::json::serialize(boost::json::object{
                 {"seconds", std::move(seconds)},
                 {"failures", std::move(failures)},
                 {"http_connections", http_connections},
                 {"tcp_connections", state.tcp_connections},
                 {"latency_ms",
                  {{"p50", quantile(0.5)}, {"p99", quantile(0.99)}, {"max", quantile(1)}}}}));
}

}  // namespace bookstore
