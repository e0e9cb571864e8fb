// Opens a server's listening socket, with errors that say what to do.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "osm/net/address.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::net {

using Listener = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

// A listening, close-on-exec socket. Failure: as HttpServer::start.
Result<Listener> open_listener(boost::asio::io_context& context, const Address& address);

// The address on which `listener` really listens.
Address local_address(const Listener& listener, const Address& asked);

// True if the process at the other end of a Unix socket runs as this process's user, or as root.
bool is_trusted_peer(int fd);

// The other end of a connection, as Request::client; empty: it is gone.
std::string client_text(int fd);

}  // namespace osm::inline v1::net
