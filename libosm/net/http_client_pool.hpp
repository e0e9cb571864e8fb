// The connections of a client. It keeps reusable ones, never exceeds the limit, and hands them out
// in the order of requests. Everything runs on the client's strand.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "net/http_client_connection.hpp"

namespace osm::inline v1::net {

class ConnectionPool : public std::enable_shared_from_this<ConnectionPool> {
 public:
  ConnectionPool(HttpClientOptions options, boost::asio::io_context& io);

  const HttpClientOptions& options() const { return options_; }
  const ClientStrand& strand() const { return strand_; }

  // Calls user->use(), now or when a connection is free.
  void acquire(std::shared_ptr<Exchange> user);
  // Removes the user from the queue, if it is there.
  void withdraw(const Exchange& user);
  // Gives back the connection of use(); the pool keeps it if it is reusable.
  void release(const std::shared_ptr<Connection>& connection);
  // A new connection in place of a broken one.
  std::shared_ptr<Connection> replace(Connection& broken);
  // A connection outside the pool; its user closes it and does not give it back.
  std::shared_ptr<Connection> make();
  // Closes kept connections, now and from now on.
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
  std::deque<std::shared_ptr<Exchange>> waiting_;
  boost::asio::steady_timer sweep_;
  bool sweeping_ = false;
  bool shut_down_ = false;
};

}  // namespace osm::inline v1::net
