// Opens a server's listening socket, with errors that say what to do.
#pragma once

#include <boost/asio/io_context.hpp>

#include "osm/net/address.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::net {

// A listening, non-blocking, close-on-exec socket. Failure: as HttpServer::start.
Result<int> open_listener(boost::asio::io_context& context, const Address& address);

// The address on which `fd` really listens.
Address local_address(int fd, const Address& asked);

// True if the process at the other end of a Unix socket runs as this process's user, or as root.
bool is_trusted_peer(int fd);

}  // namespace osm::inline v1::net
