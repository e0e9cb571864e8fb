// Opening the socket a server listens on, with errors that say what to do.
#pragma once

#include <boost/asio/io_context.hpp>

#include "osm/net/address.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::net {

// A listening, non-blocking, close-on-exec socket. Failure: as HttpServer::start.
Result<int> open_listener(boost::asio::io_context& context, const Address& address);

// Where `fd` really listens.
Address local_address(int fd, const Address& asked);

// Whether the process at the other end of a Unix socket is of this process's user, or root.
bool is_trusted_peer(int fd);

}  // namespace osm::inline v1::net
