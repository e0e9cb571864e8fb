#include "osm/net/http_server.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log_limit.hpp"
#include "base/may_wait.hpp"
#include "net/http_session.hpp"
#include "net/listener.hpp"
#include "osm/runtime/system.hpp"

namespace osm::inline v1::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// A client that takes its response more slowly gives way to a new one. A kubelet waits for a
// second.
constexpr std::chrono::milliseconds kStalled{500};
constexpr std::chrono::milliseconds kLookForStalled{100};

// The accept loop and the table of sessions. It outlives the server while operations are pending.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(asio::io_context& io, Listener listener, const HttpServerOptions& options, LogSink& log)
      : io_(io),
        log_(log),
        acceptor_(std::move(listener)),
        retry_(io),
        eviction_(io),
        options_(options),
        max_bodies_(std::max(options.max_bodies_bytes, options.max_body_bytes)),
        address_(local_address(acceptor_, options.listen)) {}

  void run(Handler handler, Executor& handlers) {
    auto weak = weak_from_this();
    context_ = std::make_shared<const SessionContext>(
        SessionContext{options_, std::move(handler), handlers,
                       [weak](LogLevel level, std::string_view message, auto fields) {
                         if (auto self = weak.lock()) self->say(level, message, std::move(fields));
                       },
                       std::make_shared<tls::ServerContexts>(options_.client_ca_pem),
                       [weak] {
                         auto self = weak.lock();
                         return self && self->begin_handler();
                       },
                       [weak] {
                         if (auto self = weak.lock()) self->handler_done();
                       },
                       [weak] {
                         if (auto self = weak.lock()) self->became_idle();
                       },
                       [weak](const HttpSession* taker, std::size_t bytes) {
                         auto self = weak.lock();
                         return self ? self->take_room(taker, bytes) : Room::kNever;
                       },
                       [weak](const HttpSession* holder, std::size_t bytes) {
                         if (auto self = weak.lock()) self->hold(holder, bytes);
                       },
                       [weak](std::size_t bytes) {
                         if (auto self = weak.lock()) self->give_back(bytes);
                       }});
    std::lock_guard lock(mutex_);
    accept();
  }

  const Address& address() const { return address_; }

  Status stop(std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    if (!std::exchange(stopping_, true)) {
      error_code ignored;
      acceptor_.close(ignored);
      retry_.cancel();
      eviction_.cancel();
      waiting_.reset();
      if (options_.listen.is_unix()) ::unlink(options_.listen.unix_path.c_str());
    }
    end_sessions(lock, false);
    const bool ended = changed_.wait_for(lock, deadline, [&] { return sessions_.empty(); });
    stopped_ = true;  // drops requests that still arrive
    if (!ended) end_sessions(lock, true);
    changed_.wait(lock, [&] { return running_handlers_ == 0; });
    if (ended) return {};
    return Error{ErrorCode::kDeadlineExceeded, "connections to " + address_.str() +
                                                   " were cut after " +
                                                   std::to_string(deadline.count()) + " ms"};
  }

 private:
  // Precondition: lock held. The function releases it meanwhile, since a session may end in
  // between.
  void end_sessions(std::unique_lock<std::mutex>& lock, bool at_once) {
    std::vector<std::shared_ptr<HttpSession>> alive;
    for (const auto& [id, weak] : sessions_)
      if (auto session = weak.lock()) alive.push_back(std::move(session));
    lock.unlock();
    for (const auto& session : alive) session->end(at_once);
    alive.clear();
    lock.lock();
  }

  bool begin_handler() {
    std::lock_guard lock(mutex_);
    if (stopped_) return false;
    ++running_handlers_;
    return true;
  }

  void handler_done() {
    std::lock_guard lock(mutex_);
    --running_handlers_;
    changed_.notify_all();
  }

  // Precondition of the next three: mutex held.
  void accept() {
    if (stopping_ || accepting_ || waiting_) return;
    accepting_ = true;
    acceptor_.async_accept(
        asio::make_strand(io_),
        [self = shared_from_this()](const error_code& error, StreamProtocol::socket socket) {
          self->on_accept(error, std::move(socket));
        });
  }

  // Serves the connection that waits, or makes room for it. Result: to be kept until the mutex is
  // released, since a session's end takes the mutex.
  std::shared_ptr<HttpSession> admit() {
    if (stopping_ || !waiting_) return nullptr;
    if (sessions_.size() >= options_.max_connections) {
      asio::post(io_, [self = shared_from_this()] { self->evict(); });
      return nullptr;
    }
    const std::uint64_t id = next_session_++;
    auto session =
        std::make_shared<HttpSession>(*std::exchange(waiting_, std::nullopt), context_,
                                      [self = shared_from_this(), id] { self->ended(id); });
    sessions_[id] = session;
    session->run();
    accept();
    return session;
  }

  // Clients can cause each line as often as they like. `message`: a literal. Thread: any.
  void say(LogLevel level, std::string_view message, std::vector<LogField> fields) {
    if (!log_.enabled(level)) return;
    std::unique_lock lock(lines_mutex_);
    const auto left_out = lines_.admit(message);
    lock.unlock();
    if (!left_out) return;
    fields.push_back({"address", address_.str()});
    fields.push_back({"left_out", std::to_string(*left_out)});
    log_.write(level, message, fields);
  }

  void retry_later() {
    // For example out of descriptors: wait, since retrying at once would starve the rest.
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([self = shared_from_this()](const error_code& error) {
      if (error) return;
      std::lock_guard lock(self->mutex_);
      self->accept();
    });
  }

  void on_accept(const error_code& error, StreamProtocol::socket socket) {
    std::shared_ptr<HttpSession> session;  // outlives the lock
    std::lock_guard lock(mutex_);
    accepting_ = false;
    if (stopping_) return;
    if (error) {
      say(LogLevel::kWarning, "cannot accept an HTTP connection", {{"error", error.message()}});
      return retry_later();
    }
    if (options_.listen.is_unix() && !is_trusted_peer(socket.native_handle())) {
      say(LogLevel::kWarning, "refused a connection of another user", {});
      return accept();
    }
    waiting_ = std::move(socket);
    session = admit();
  }

  // If a connection still waits for its place, ends the oldest session without a running request,
  // else the one whose client has not taken its response for the longest time.
  void evict() {
    std::vector<std::shared_ptr<HttpSession>> alive;  // outlive the lock
    std::lock_guard lock(mutex_);
    if (stopping_ || !waiting_ || sessions_.size() < options_.max_connections) return;
    HttpSession* stalled = nullptr;
    for (const auto& [id, weak] : sessions_) {
      const auto& session = alive.emplace_back(weak.lock());
      if (!session) continue;
      if (session->is_idle()) return session->end(true);
      const auto stalled_for = session->stalled_for();
      if (stalled_for >= kStalled && (!stalled || stalled_for > stalled->stalled_for()))
        stalled = session.get();
    }
    if (stalled) return stalled->end(true);
    eviction_.expires_after(kLookForStalled);
    eviction_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->evict();
    });
  }

  // Room for `bytes` of a body. If there is none, the session whose body has been arriving for the
  // longest time ends, unless all have just begun.
  Room take_room(const HttpSession* taker, std::size_t bytes) {
    std::vector<std::shared_ptr<HttpSession>> alive;  // outlive the lock
    std::lock_guard lock(mutex_);
    if (bodies_ + bytes <= max_bodies_) {
      bodies_ += bytes;
      return Room::kTaken;
    }
    HttpSession* longest = nullptr;
    for (const auto& [id, weak] : sessions_) {
      const auto& session = alive.emplace_back(weak.lock());
      if (session && (!longest || session->sending_for() > longest->sending_for()))
        longest = session.get();
    }
    if (!longest || longest->sending_for() < kStalled) return Room::kLater;
    if (longest == taker) return Room::kNever;
    longest->end(true);
    return Room::kLater;
  }

  // Beyond the bound, the session whose client has not taken its response for the longest time
  // ends.
  void hold(const HttpSession* holder, std::size_t bytes) {
    std::vector<std::shared_ptr<HttpSession>> alive;  // outlive the lock
    std::lock_guard lock(mutex_);
    bodies_ += bytes;
    if (bodies_ <= max_bodies_) return;
    HttpSession* longest = nullptr;
    for (const auto& [id, weak] : sessions_) {
      const auto& session = alive.emplace_back(weak.lock());
      if (!session || session.get() == holder || session->stalled_for().count() == 0) continue;
      if (!longest || session->stalled_for() > longest->stalled_for()) longest = session.get();
    }
    if (longest) longest->end(true);
  }

  void give_back(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    bodies_ -= bytes;
  }

  void became_idle() {
    std::shared_ptr<HttpSession> session;  // outlives the lock
    std::lock_guard lock(mutex_);
    session = admit();
  }

  void ended(std::uint64_t id) {
    std::shared_ptr<HttpSession> session;  // outlives the lock
    std::lock_guard lock(mutex_);
    sessions_.erase(id);
    changed_.notify_all();
    session = admit();
  }

  asio::io_context& io_;
  LogSink& log_;
  const SystemClock clock_{};
  std::mutex lines_mutex_;
  LogLimits<std::string_view> lines_{clock_};  // by message; guarded by lines_mutex_
  Listener acceptor_;
  asio::steady_timer retry_;
  asio::steady_timer eviction_;
  const HttpServerOptions options_;
  const std::uint64_t max_bodies_;
  const Address address_;
  std::shared_ptr<const SessionContext> context_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::weak_ptr<HttpSession>> sessions_;
  std::uint64_t next_session_ = 0;
  std::uint64_t bodies_ = 0;  // bytes of bodies, of requests and responses
  int running_handlers_ = 0;
  bool accepting_ = false;
  std::optional<StreamProtocol::socket> waiting_;  // accepted, and every place is taken
  bool stopping_ = false;                          // no new connections
  bool stopped_ = false;                           // no new requests
};

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(std::shared_ptr<Acceptor> acceptor, const Executor& io, const Executor& handlers)
      : acceptor_(std::move(acceptor)), io_(io), handlers_(handlers) {}
  ~HttpServerImpl() override {
    require_may_wait(io_, "~HttpServer");
    require_may_wait(handlers_, "~HttpServer");
    static_cast<void>(stop(std::chrono::seconds(1)));
  }

  Address address() const override { return acceptor_->address(); }
  Status stop(std::chrono::milliseconds deadline) override {
    OSM_TRY(check_may_wait(io_, "HttpServer::stop"));
    OSM_TRY(check_may_wait(handlers_, "HttpServer::stop"));
    return acceptor_->stop(deadline);
  }

 private:
  const std::shared_ptr<Acceptor> acceptor_;
  const Executor& io_;
  const Executor& handlers_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                      AsioExecutor& io, Executor& handlers,
                                                      Handler handler, LogSink& log) {
  OSM_TRY(tls::check_client_ca(options.client_ca_pem));
  OSM_TRY(Listener listener, open_listener(io.context(), options.listen));
  auto acceptor = std::make_shared<Acceptor>(io.context(), std::move(listener), options, log);
  acceptor->run(std::move(handler), handlers);
  return std::unique_ptr<HttpServer>(
      std::make_unique<HttpServerImpl>(std::move(acceptor), io, handlers));
}

}  // namespace osm::inline v1::net
