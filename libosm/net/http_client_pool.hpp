// The connections of a client: kept while they are of use, never more than the bound, given out in
// the order they were asked for. Everything runs on the client's strand.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "net/http_client_connection.hpp"

namespace osm::inline v1::net {

// Who waits for a connection.
class ConnectionUser {
 public:
  virtual ~ConnectionUser() = default;
  // It is this user's until it is given back. Maybe not connected yet.
  virtual void use(std::shared_ptr<Connection> connection) = 0;
};

class ConnectionPool : public std::enable_shared_from_this<ConnectionPool> {
 public:
  ConnectionPool(HttpClientOptions options, boost::asio::io_context& io);

  const HttpClientOptions& options() const { return options_; }
  const ClientStrand& strand() const { return strand_; }

  // Calls user.use(), now or when one is free.
  void acquire(std::shared_ptr<ConnectionUser> user);
  // Waits no more. Nothing happens when it does not wait.
  void withdraw(const ConnectionUser& user);
  // Gives back what use() brought: it is kept when it is reusable.
  void release(const std::shared_ptr<Connection>& connection);
  // A new one for whoever holds one of no use; it takes that one's place.
  std::shared_ptr<Connection> replace(Connection& broken);
  // One beside the pool, which is closed and not given back.
  std::shared_ptr<Connection> make();
  // Closes what is kept, now and from now on.
  void shutdown();

 private:
  struct Idle {
    std::shared_ptr<Connection> connection;
    std::chrono::steady_clock::time_point until;
  };

  std::shared_ptr<Connection> take_idle();
  void serve();
  void sweep_later();

  const HttpClientOptions options_;
  const ClientStrand strand_;
  tls::ClientContexts contexts_;
  std::size_t busy_ = 0;
  std::vector<Idle> idle_;  // the newest last
  std::deque<std::shared_ptr<ConnectionUser>> waiting_;
  boost::asio::steady_timer sweep_;
  bool sweeping_ = false;
  bool shut_down_ = false;
};

}  // namespace osm::inline v1::net
