#include "osm/net/http_client.hpp"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/string.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/may_wait.hpp"
#include "net/gunzip.hpp"
#include "net/http_client_connection.hpp"
#include "osm/certificate/secret_bytes.hpp"
#include "osm/detail/call_gate.hpp"
#include "osm/runtime/asio_executor.hpp"

namespace osm::inline v1::net {
namespace {

using Clock = std::chrono::steady_clock;

std::string milliseconds(std::chrono::milliseconds duration) {
  return std::to_string(duration.count()) + " ms";
}

// Longest deadline without overflow; a longer one means none.
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
// Room that is made for a response before it is there.
constexpr std::uint64_t kReserved = 1024 * 1024;

class Exchange;

// The connections of a client. It keeps reusable ones, never exceeds the limit, and hands them out
// in the order of requests. Everything runs on the client's strand.
class ConnectionPool : public std::enable_shared_from_this<ConnectionPool> {
 public:
  ConnectionPool(HttpClientOptions options, boost::asio::io_context& io)
      : options_(std::move(options)),
        strand_(boost::asio::make_strand(io.get_executor())),
        sweep_(strand_) {}

  const HttpClientOptions& options() const { return options_; }
  const ClientStrand& strand() const { return strand_; }

  // Calls user->use(), now or when a connection is free.
  void acquire(std::shared_ptr<Exchange> user) {
    waiting_.push_back(std::move(user));
    serve();
  }

  // Removes the user from the queue, if it is there.
  void withdraw(const Exchange& user) {
    std::erase_if(waiting_, [&](const auto& waiting) { return waiting.get() == &user; });
  }

  // Gives back the connection of use(); the pool keeps it if it is reusable.
  void release(const std::shared_ptr<Connection>& connection) {
    --busy_;
    if (!shut_down_ && connection->is_reusable()) {
      idle_.push_back({connection, Clock::now() + options_.idle_timeout});
      sweep_later();
    } else {
      connection->close();
    }
    serve();
  }

  // A connection outside the pool, whose user closes it and does not give it back; or in place of a
  // broken one of the pool.
  std::shared_ptr<Connection> make() {
    return std::make_shared<Connection>(strand_, options_, contexts_);
  }

  // Closes kept connections, now and from now on.
  void shutdown() {
    shut_down_ = true;
    for (const Idle& idle : idle_) idle.connection->close();
    idle_.clear();
    sweep_.cancel();
  }

 private:
  struct Idle {
    std::shared_ptr<Connection> connection;
    Clock::time_point until;
  };

  std::shared_ptr<Connection> take_idle() {
    while (!idle_.empty()) {
      auto connection = std::move(idle_.back().connection);
      idle_.pop_back();
      if (connection->is_reusable()) return connection;
      connection->close();
    }
    return nullptr;
  }

  void serve();  // calls Exchange

  void sweep_later() {
    if (sweeping_ || idle_.empty()) return;
    sweeping_ = true;
    sweep_.expires_at(idle_.front().until);
    sweep_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      self->sweeping_ = false;
      if (error) return;
      const auto now = Clock::now();
      std::erase_if(self->idle_, [&](const Idle& idle) {
        if (idle.until > now) return false;
        idle.connection->close();
        return true;
      });
      self->sweep_later();
    });
  }

  const HttpClientOptions options_;
  const ClientStrand strand_;
  tls::ClientContexts contexts_;
  std::size_t busy_ = 0;
  std::vector<Idle> idle_;  // the newest last
  std::deque<std::shared_ptr<Exchange>> waiting_;
  boost::asio::steady_timer sweep_;
  bool sweeping_ = false;
  bool shut_down_ = false;
};

// Callbacks of a request: `done` for a call, the others for a stream.
struct ExchangeCallbacks {
  std::function<void(Result<Response>)> done{};
  HttpStreamEvents stream{};
};

// One request of the client, from send() or open_stream() to its last callback.
//
// It handles the deadline, cancellation, one repetition over a new connection if a kept one turned
// out to be closed, and the response of a call.
//
// Thread: the client's strand, except for cancel().
class Exchange final : public ResponseReceiver, public std::enable_shared_from_this<Exchange> {
 public:
  enum class Kind { kCall, kStream };

  Exchange(Kind kind, std::shared_ptr<ConnectionPool> pool, HttpRequest request,
           ExchangeCallbacks callbacks)
      : kind_(kind),
        pool_(std::move(pool)),
        request_(std::move(request)),
        where_(request_.method + ' ' + request_.target + " at " + pool_->options().address.str()),
        callbacks_(std::move(callbacks)),
        timer_(pool_->strand()),
        deadline_(Clock::now() + std::min(request_.deadline, kLongest)) {}

  ~Exchange() override {
    for (auto& [name, value] : request_.headers) erase(value);
    for (std::string* text : {&request_.body, &head_, &response_.body}) erase(*text);
  }

  void start() {
    if (finished_) return;
    auto head = request_head(request_, pool_->options().address);
    if (!head.ok()) return finish(std::move(head).error());
    head_ = *std::move(head);
    limit(deadline_);
    if (!is_stream()) return pool_->acquire(shared_from_this());
    use(pool_->make());
  }

  // Cancels the request. When it returns, no callback runs or will run, except one that made this
  // call. Thread: any.
  void cancel() {
    if (gate_.close())
      callbacks_ = {};
    else
      cancelled_inside_ = true;
    if (!ended_.exchange(true))
      boost::asio::post(pool_->strand(), [self = shared_from_this()] { self->abort(); });
  }

  // For the pool: takes a connection until it is given back. It may not be connected yet.
  void use(std::shared_ptr<Connection> connection) {
    connection_ = std::move(connection);
    if (connection_->is_connected()) return send();
    limit(std::min(deadline_, Clock::now() + std::min(pool_->options().connect_timeout, kLongest)));
    // The timer keeps this exchange alive meanwhile.
    connection_->connect([weak = weak_from_this()](Status status) {
      if (const auto self = weak.lock()) self->on_connected(std::move(status));
    });
  }

  bool on_head(Response head, std::optional<std::uint64_t> content_length) override {
    has_head_ = true;
    if (is_stream()) {
      no_limit();
      if (request_.gzip && is_gzip(head)) gunzip_.emplace(request_.max_response_bytes);
      return tell([&](ExchangeCallbacks& to) {
        if (to.stream.on_head) to.stream.on_head(head);
      });
    }
    response_ = std::move(head);
    const bool has_body = request_.method != "HEAD";
    if (has_body && content_length && *content_length > request_.max_response_bytes)
      return too_large();
    // Growing would leave copies of what was received so far.
    if (has_body && content_length) response_.body.reserve(std::min(*content_length, kReserved));
    return true;
  }

  bool on_data(std::string_view data) override {
    if (gunzip_) return decompress(data);
    if (is_stream()) return tell_data(data);
    if (data.size() > request_.max_response_bytes - response_.body.size()) return too_large();
    response_.body += data;
    return true;
  }

  void on_end(Status status, bool untouched) override {
    // The server closed the connection while the request was on its way; the request itself is
    // fine. The new connection was not kept before, so this happens only once.
    if (!status.ok() && untouched && was_kept_ && is_idempotent(request_.method)) {
      connection_->close();
      return use(pool_->make());
    }
    if (status.ok() && gunzip_) status = gunzip_->finish();
    finish(std::move(status));
  }

 private:
  static bool is_gzip(const Response& head) {
    return std::ranges::any_of(head.headers, [](const auto& header) {
      return boost::beast::iequals(header.first, "Content-Encoding") &&
             boost::beast::iequals(header.second, "gzip");
    });
  }

  bool tell_data(std::string_view data) {
    return tell([&](ExchangeCallbacks& to) {
      if (to.stream.on_data) to.stream.on_data(data);
    });
  }

  bool decompress(std::string_view data) {
    bool go_on = true;
    Status fed =
        gunzip_->feed(data, [&](std::string_view content) { return go_on = tell_data(content); });
    if (fed.ok()) return go_on;
    connection_->close();
    finish(std::move(fed));
    return false;
  }

  bool is_stream() const { return kind_ == Kind::kStream; }
  void on_connected(Status status) {
    if (!status.ok()) return finish(std::move(status));
    limit(deadline_);
    send();
  }

  void send() {
    was_kept_ = connection_->is_used();
    connection_->exchange(head_, request_.body, request_.method == "HEAD", shared_from_this());
  }

  void give_back() {
    const auto connection = std::exchange(connection_, nullptr);
    if (is_stream()) {
      if (connection) connection->close();
    } else if (connection) {
      pool_->release(connection);
    } else {
      pool_->withdraw(*this);
    }
  }

  void abort() {
    if (std::exchange(finished_, true)) return;
    no_limit();
    if (connection_) connection_->close();
    give_back();
  }

  void finish(Status status) {
    if (std::exchange(finished_, true)) return;
    no_limit();
    give_back();  // first: the callback may send the next request over the same connection
    if (!status.ok()) status = status.error().with_context(where_);
    tell([&](ExchangeCallbacks& to) {
      ExchangeCallbacks last = std::exchange(to, {});
      if (is_stream()) {
        if (last.stream.on_end) last.stream.on_end(std::move(status));
      } else if (status.ok()) {
        last.done(std::move(response_));
      } else {
        last.done(std::move(status).error());
      }
    });
    ended_ = true;
  }

  bool too_large() {
    connection_->close();
    finish(Error{ErrorCode::kTooLarge, "the response is larger than " +
                                           std::to_string(request_.max_response_bytes) + " bytes"});
    return false;
  }

  // Ends the request at `until`, unless another limit is set before.
  void limit(Clock::time_point until) {
    timer_.expires_at(until);
    timer_.async_wait(
        [self = shared_from_this(), use = ++timer_use_](const boost::system::error_code& error) {
          // Ignore a timer that had fired already when it was set again.
          if (error || use != self->timer_use_ || self->finished_) return;
          const Error late = self->timed_out();
          if (self->connection_) self->connection_->close();
          self->finish(late);
        });
  }

  void no_limit() {
    ++timer_use_;
    timer_.cancel();
  }

  Error timed_out() const {
    const HttpClientOptions& options = pool_->options();
    const auto late = [](std::string message) {
      return Error{ErrorCode::kDeadlineExceeded, std::move(message)};
    };
    if (!connection_)
      return late("all " + std::to_string(options.max_connections) +
                  " connections were in use for " + milliseconds(request_.deadline));
    if (!connection_->is_connected())
      return late("waited for " + std::string(connection_->waits_for()) + " for " +
                  milliseconds(std::min(request_.deadline, options.connect_timeout)));
    return late(std::string(has_head_ ? "the answer did not end" : "no answer") + " within " +
                milliseconds(request_.deadline));
  }

  // Calls back unless cancelled. Result: false if cancelled.
  bool tell(const std::function<void(ExchangeCallbacks&)>& act) {
    if (!gate_.enter()) return false;
    act(callbacks_);
    if (gate_.leave()) return true;
    if (cancelled_inside_) callbacks_ = {};  // otherwise cancel() clears them
    abort();
    return false;
  }

  const Kind kind_;
  const std::shared_ptr<ConnectionPool> pool_;
  HttpRequest request_;      // may hold keys and tokens, as the response may
  const std::string where_;  // "GET /path at host:port"
  detail::CallGate gate_;
  ExchangeCallbacks callbacks_;  // used by cancel() if nothing runs, else by the strand

  std::string head_;
  std::shared_ptr<Connection> connection_;
  Response response_;
  std::optional<Gunzip> gunzip_;  // the body is compressed
  boost::asio::steady_timer timer_;
  std::uint64_t timer_use_ = 0;
  const Clock::time_point deadline_;
  bool was_kept_ = false;
  bool has_head_ = false;
  bool finished_ = false;
  bool cancelled_inside_ = false;   // by a callback
  std::atomic<bool> ended_{false};  // nothing is left to cancel
};

void ConnectionPool::serve() {
  const std::size_t bound = std::max<std::size_t>(options_.max_connections, 1);
  while (!waiting_.empty() && busy_ < bound) {
    auto user = std::move(waiting_.front());
    waiting_.pop_front();
    auto connection = take_idle();
    if (!connection) connection = make();
    ++busy_;
    user->use(std::move(connection));
  }
}

class HttpClientImpl final : public HttpClient {
 public:
  HttpClientImpl(HttpClientOptions options, AsioExecutor& io)
      : io_(io), pool_(std::make_shared<ConnectionPool>(std::move(options), io.context())) {}

  ~HttpClientImpl() override {
    std::vector<std::weak_ptr<Exchange>> open;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      open.swap(open_);
    }
    for (const auto& weak : open)
      if (const auto exchange = weak.lock()) exchange->cancel();
    boost::asio::post(pool_->strand(), [pool = pool_] { pool->shutdown(); });
  }

  Subscription send(HttpRequest request, std::function<void(Result<Response>)> done) override {
    return start(Exchange::Kind::kCall, std::move(request), {.done = std::move(done)});
  }

  Subscription open_stream(HttpRequest request, HttpStreamEvents events) override {
    return start(Exchange::Kind::kStream, std::move(request), {.stream = std::move(events)});
  }

  Result<Response> call(HttpRequest request) override {
    OSM_TRY(check_may_wait(io_, "HttpClient::call"));
    std::promise<Result<Response>> answered;
    auto answer = answered.get_future();
    const Subscription sent = send(std::move(request), [&](Result<Response> response) {
      answered.set_value(std::move(response));
    });
    return answer.get();
  }

 private:
  Subscription start(Exchange::Kind kind, HttpRequest request, ExchangeCallbacks callbacks) {
    auto exchange =
        std::make_shared<Exchange>(kind, pool_, std::move(request), std::move(callbacks));
    {
      std::lock_guard lock(mutex_);
      if (closed_) return {};                  // from a callback that the destructor waits for
      if (open_.size() == open_.capacity()) {  // remove ended entries before the table grows
        std::erase_if(open_, [](const auto& weak) { return weak.expired(); });
        open_.reserve(2 * open_.size() + 16);
      }
      open_.push_back(exchange);
    }
    boost::asio::post(pool_->strand(), [exchange] { exchange->start(); });
    void* address = exchange.get();
    return Subscription(std::shared_ptr<void>(
        address, [exchange = std::move(exchange)](void*) { exchange->cancel(); }));
  }

  const Executor& io_;
  const std::shared_ptr<ConnectionPool> pool_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Exchange>> open_;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<HttpClient> HttpClient::create(HttpClientOptions options, AsioExecutor& io) {
  return std::make_unique<HttpClientImpl>(std::move(options), io);
}

Result<Response> http_call(const HttpCall& call) {
  boost::asio::io_context context(1);  // runs in this thread only
  AsioExecutor io(context);
  const auto client =
      HttpClient::create({.address = call.address, .connect_timeout = call.deadline}, io);
  HttpRequest request{.method = call.method,
                      .target = call.target,
                      .body = call.body,
                      .deadline = call.deadline,
                      .max_response_bytes = call.max_response_bytes};
  if (!call.body.empty()) request.headers.emplace_back("Content-Type", call.content_type);
  std::optional<Result<Response>> answer;
  const Subscription sent = client->send(
      std::move(request), [&](Result<Response> response) { answer = std::move(response); });
  while (!answer) context.run_one();
  return *std::move(answer);
}

}  // namespace osm::inline v1::net
