// Free ports, for programs that are told their ports and cannot leave the choice to the kernel.
#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace osm::inline v1::testing {

// Different TCP ports that are free on every IPv4 address. Each is held until all are drawn: the
// kernel may draw a port again as soon as its socket is closed.
template <std::size_t N>
std::array<std::uint16_t, N> free_ports() {
  std::array<int, N> sockets{};
  std::array<std::uint16_t, N> ports{};
  for (std::size_t i = 0; i < N; ++i) {
    sockets[i] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t size = sizeof any;
    REQUIRE(::bind(sockets[i], reinterpret_cast<const sockaddr*>(&any), size) == 0);
    REQUIRE(::getsockname(sockets[i], reinterpret_cast<sockaddr*>(&any), &size) == 0);
    ports[i] = ntohs(any.sin_port);
  }
  for (const int each : sockets) ::close(each);
  return ports;
}

}  // namespace osm::inline v1::testing
