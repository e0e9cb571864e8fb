// One request of the client, from send() or open_stream() to its last callback.
//
// It handles the deadline, cancellation, one repetition over a new connection if a kept one turned
// out to be closed, and the response of a call.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "net/http_client_pool.hpp"
#include "osm/detail/call_gate.hpp"

namespace osm::inline v1::net {

// Request line and headers for the server at `address`. Failure: kInvalidArgument for input that
// the server would read differently than its caller: line breaks, headers that frame the body.
Result<std::string> request_head(const HttpRequest& request, const Address& address);

// True if the request may be sent again when it is unknown if it arrived (RFC 9110, section 9.2.2).
bool is_idempotent(const std::string& method);

// Callbacks of a request: `done` for a call, the others for a stream.
struct ExchangeCallbacks {
  std::function<void(Result<Response>)> done{};
  HttpStreamEvents stream{};
};

// Thread: the client's strand, except for cancel().
class Exchange final : public std::enable_shared_from_this<Exchange> {
 public:
  enum class Kind { kCall, kStream };

  Exchange(Kind kind, std::shared_ptr<ConnectionPool> pool, HttpRequest request,
           ExchangeCallbacks callbacks);
  ~Exchange();

  void start();
  // Cancels the request. When it returns, no callback runs or will run, except one that made this
  // call. Thread: any.
  void cancel();

  // For the pool: takes a connection until it is given back. It may not be connected yet.
  void use(std::shared_ptr<Connection> connection);

  // For the connection, which tells of the response. The first two return true to continue; if they
  // return false, they have closed the connection, and nothing more follows.
  bool on_head(Response head, std::optional<std::uint64_t> content_length);
  bool on_data(std::string_view data);
  // The last call. `untouched`: it failed before the first byte of a response.
  void on_end(Status status, bool untouched);

 private:
  bool is_stream() const { return kind_ == Kind::kStream; }
  void on_connected(Status status);
  void send();
  void give_back();
  void abort();
  void finish(Status status);
  bool too_large();
  // Ends the request at `until`, unless another limit is set before.
  void limit(std::chrono::steady_clock::time_point until);
  void no_limit();
  Error timed_out() const;
  // Calls back unless cancelled. Result: false if cancelled.
  bool tell(const std::function<void(ExchangeCallbacks&)>& act);

  const Kind kind_;
  const std::shared_ptr<ConnectionPool> pool_;
  HttpRequest request_;      // may hold keys and tokens, as the response may
  const std::string where_;  // "GET /path at host:port"
  detail::CallGate gate_;
  ExchangeCallbacks callbacks_;  // used by cancel() if nothing runs, else by the strand

  std::string head_;
  std::shared_ptr<Connection> connection_;
  Response response_;
  boost::asio::steady_timer timer_;
  std::uint64_t timer_use_ = 0;
  std::chrono::steady_clock::time_point deadline_;
  bool was_kept_ = false;
  bool has_head_ = false;
  bool finished_ = false;
  bool cancelled_inside_ = false;   // by a callback
  std::atomic<bool> ended_{false};  // nothing is left to cancel
};

}  // namespace osm::inline v1::net
