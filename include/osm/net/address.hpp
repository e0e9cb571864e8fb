// An address to listen on or connect to: "HOST:PORT", "[IPV6]:PORT" or "unix:/path".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::net {

// A TCP address or a Unix socket's path, as parse_address() reads it.
struct OSM_API Address {
  std::string host{};  // without brackets; empty for a Unix socket
  std::uint16_t port = 0;
  std::string unix_path{};  // empty for TCP

  // True for a Unix socket.
  bool is_unix() const { return !unix_path.empty(); }
  // True for a Unix socket, "localhost" and loopback addresses: nothing sent there leaves the host.
  bool is_this_machine() const;
  std::string str() const;  // parse_address() of it gives an equal address

  friend bool operator==(const Address&, const Address&) = default;
};

// Failure: kInvalidArgument, with the remedy.
OSM_API Result<Address> parse_address(std::string_view text);

}  // namespace osm::inline v1::net
