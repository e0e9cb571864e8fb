#include "net/http_client_exchange.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "osm/certificate/secret_bytes.hpp"

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

}  // namespace

Exchange::Exchange(Kind kind, std::shared_ptr<ConnectionPool> pool, HttpRequest request,
                   ExchangeCallbacks callbacks)
    : kind_(kind),
      pool_(std::move(pool)),
      request_(std::move(request)),
      where_(request_.method + ' ' + request_.target + " at " + pool_->options().address.str()),
      callbacks_(std::move(callbacks)),
      timer_(pool_->strand()),
      deadline_(Clock::now() + std::min(request_.deadline, kLongest)) {}

Exchange::~Exchange() {
  for (auto& [name, value] : request_.headers) erase(value);
  for (std::string* text : {&request_.body, &head_, &response_.body}) erase(*text);
}

void Exchange::start() {
  if (finished_) return;
  auto head = request_head(request_, pool_->options().address);
  if (!head.ok()) return finish(std::move(head).error());
  head_ = *std::move(head);
  limit(deadline_);
  if (!is_stream()) return pool_->acquire(shared_from_this());
  use(pool_->make());
}

void Exchange::use(std::shared_ptr<Connection> connection) {
  connection_ = std::move(connection);
  if (connection_->is_connected()) return send();
  limit(std::min(deadline_, Clock::now() + std::min(pool_->options().connect_timeout, kLongest)));
  // The timer keeps this exchange alive meanwhile.
  connection_->connect([weak = weak_from_this()](Status status) {
    if (const auto self = weak.lock()) self->on_connected(std::move(status));
  });
}

void Exchange::on_connected(Status status) {
  if (!status.ok()) return finish(std::move(status));
  limit(deadline_);
  send();
}

void Exchange::send() {
  was_kept_ = connection_->is_used();
  connection_->exchange(head_, request_.body, request_.method == "HEAD", shared_from_this());
}

bool Exchange::on_head(Response head, std::optional<std::uint64_t> content_length) {
  has_head_ = true;
  if (is_stream()) {
    no_limit();
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

bool Exchange::on_data(std::string_view data) {
  if (is_stream()) {
    return tell([&](ExchangeCallbacks& to) {
      if (to.stream.on_data) to.stream.on_data(data);
    });
  }
  if (data.size() > request_.max_response_bytes - response_.body.size()) return too_large();
  response_.body += data;
  return true;
}

bool Exchange::too_large() {
  connection_->close();
  finish(Error{ErrorCode::kTooLarge, "the response is larger than " +
                                         std::to_string(request_.max_response_bytes) + " bytes"});
  return false;
}

void Exchange::on_end(Status status, bool untouched) {
  // The server closed the connection while the request was on its way; the request itself is fine.
  // The new connection was not kept before, so this happens only once.
  if (!status.ok() && untouched && was_kept_ && is_idempotent(request_.method))
    return use(pool_->replace(*connection_));
  finish(std::move(status));
}

void Exchange::finish(Status status) {
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

void Exchange::give_back() {
  const auto connection = std::exchange(connection_, nullptr);
  if (is_stream()) {
    if (connection) connection->close();
  } else if (connection) {
    pool_->release(connection);
  } else {
    pool_->withdraw(*this);
  }
}

void Exchange::abort() {
  if (std::exchange(finished_, true)) return;
  no_limit();
  if (connection_) connection_->close();
  give_back();
}

void Exchange::cancel() {
  if (gate_.close())
    callbacks_ = {};
  else
    cancelled_inside_ = true;
  if (!ended_.exchange(true))
    boost::asio::post(pool_->strand(), [self = shared_from_this()] { self->abort(); });
}

bool Exchange::tell(const std::function<void(ExchangeCallbacks&)>& act) {
  if (!gate_.enter()) return false;
  act(callbacks_);
  if (gate_.leave()) return true;
  if (cancelled_inside_) callbacks_ = {};  // otherwise cancel() clears them
  abort();
  return false;
}

void Exchange::limit(Clock::time_point until) {
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

void Exchange::no_limit() {
  ++timer_use_;
  timer_.cancel();
}

Error Exchange::timed_out() const {
  const HttpClientOptions& options = pool_->options();
  const auto late = [](std::string message) {
    return Error{ErrorCode::kDeadlineExceeded, std::move(message)};
  };
  if (!connection_)
    return late("all " + std::to_string(options.max_connections) + " connections were in use for " +
                milliseconds(request_.deadline));
  if (!connection_->is_connected())
    return late("waited for " + std::string(connection_->waits_for()) + " for " +
                milliseconds(std::min(request_.deadline, options.connect_timeout)));
  return late(std::string(has_head_ ? "the answer did not end" : "no answer") + " within " +
              milliseconds(request_.deadline));
}

}  // namespace osm::inline v1::net
