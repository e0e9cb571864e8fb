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

// Callbacks of a request: `done` for a call, the others for a stream.
struct ExchangeCallbacks {
  std::function<void(Result<Response>)> done{};
  HttpStreamEvents stream{};
};

// Thread: the client's strand, except for cancel().
class Exchange final : public ConnectionUser,
                       public ResponseReceiver,
                       public std::enable_shared_from_this<Exchange> {
 public:
  enum class Kind { kCall, kStream };

  Exchange(Kind kind, std::shared_ptr<ConnectionPool> pool, HttpRequest request,
           ExchangeCallbacks callbacks);
  ~Exchange() override;

  void start();
  // Cancels the request. When it returns, no callback runs or will run, except one that made this
  // call. Thread: any.
  void cancel();

 private:
  void use(std::shared_ptr<Connection> connection) override;
  bool on_head(Response head, std::optional<std::uint64_t> content_length) override;
  bool on_data(std::string_view data) override;
  void on_end(Status status, bool untouched) override;

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
