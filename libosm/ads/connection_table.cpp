#include "ads/connection_table.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <iterator>

#include "base/maps.hpp"

namespace osm::inline v1::ads {
namespace {

// 0: the descriptor is closed.
std::uint64_t socket_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

template <class Ip>
std::string text(int family, const Ip& ip) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, &ip, text.data(), text.size()) ? text.data() : "";
}

}  // namespace

RemoteAddress remote_address(int descriptor) {
  sockaddr_in6 v6{};
  socklen_t size = sizeof v6;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&v6), &size) != 0) return {};
  if (v6.sin6_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(v6);
    return {"ipv4:" + text(AF_INET, v4.sin_addr), std::to_string(ntohs(v4.sin_port))};
  }
  const std::string port = std::to_string(ntohs(v6.sin6_port));
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    in_addr v4{};
    std::memcpy(&v4, &v6.sin6_addr.s6_addr[12], sizeof v4);
    return {"ipv4:" + text(AF_INET, v4), port};
  }
  return {"ipv6:%5B" + text(AF_INET6, v6.sin6_addr) + "%5D", port};
}

void ConnectionTable::settle(const Connection& connection) {
  if (connection.verified) return;
  --unverified_;
  if (auto of = unverified_of_.find(connection.remote.host); --of->second == 0)
    unverified_of_.erase(of);
}

ConnectionTable::Table::iterator ConnectionTable::erase(Table::iterator at) {
  settle(at->second);
  const auto known = by_remote_.find(at->second.remote.str());
  if (known != by_remote_.end() && known->second == at->first) by_remote_.erase(known);
  return open_.erase(at);
}

void ConnectionTable::add(int descriptor, const RemoteAddress& remote) {
  if (auto before = open_.find(descriptor); before != open_.end()) erase(before);
  open_.emplace(descriptor, Connection{socket_of(descriptor), remote});
  by_remote_[remote.str()] = descriptor;
  ++unverified_;
  ++unverified_of_[remote.host];
}

void ConnectionTable::verify(const std::string& remote) {
  const int* descriptor = find_in(by_remote_, remote);
  if (!descriptor) return;
  Connection& connection = open_.at(*descriptor);
  settle(connection);
  connection.verified = true;
}

void ConnectionTable::forget_closed() {
  for (auto at = open_.begin(); at != open_.end();)
    at = socket_of(at->first) == at->second.socket ? std::next(at) : erase(at);
}

std::size_t ConnectionTable::unverified_of(const std::string& host) const {
  const std::size_t* count = find_in(unverified_of_, host);
  return count ? *count : 0;
}

}  // namespace osm::inline v1::ads
