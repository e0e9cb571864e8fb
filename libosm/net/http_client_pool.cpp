#include "net/http_client_pool.hpp"

#include <algorithm>
#include <utility>

#include "net/http_client_exchange.hpp"

namespace osm::inline v1::net {

using Clock = std::chrono::steady_clock;

ConnectionPool::ConnectionPool(HttpClientOptions options, boost::asio::io_context& io)
    : options_(std::move(options)),
      strand_(boost::asio::make_strand(io.get_executor())),
      sweep_(strand_) {}

std::shared_ptr<Connection> ConnectionPool::make() {
  return std::make_shared<Connection>(strand_, options_, contexts_);
}

std::shared_ptr<Connection> ConnectionPool::take_idle() {
  while (!idle_.empty()) {
    auto connection = std::move(idle_.back().connection);
    idle_.pop_back();
    if (connection->is_reusable()) return connection;
    connection->close();
  }
  return nullptr;
}

void ConnectionPool::acquire(std::shared_ptr<Exchange> user) {
  waiting_.push_back(std::move(user));
  serve();
}

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

void ConnectionPool::withdraw(const Exchange& user) {
  std::erase_if(waiting_, [&](const auto& waiting) { return waiting.get() == &user; });
}

void ConnectionPool::release(const std::shared_ptr<Connection>& connection) {
  --busy_;
  if (!shut_down_ && connection->is_reusable()) {
    idle_.push_back({connection, Clock::now() + options_.idle_timeout});
    sweep_later();
  } else {
    connection->close();
  }
  serve();
}

std::shared_ptr<Connection> ConnectionPool::replace(Connection& broken) {
  broken.close();
  return make();
}

void ConnectionPool::sweep_later() {
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

void ConnectionPool::shutdown() {
  shut_down_ = true;
  for (const Idle& idle : idle_) idle.connection->close();
  idle_.clear();
  sweep_.cancel();
}

}  // namespace osm::inline v1::net
