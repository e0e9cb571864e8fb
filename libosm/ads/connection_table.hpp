// The ADS server's open connections. gRPC owns their descriptors and does not say when it closes
// one, so the table asks the kernel: a descriptor that is closed, or stands for another socket, is
// gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

namespace osm::inline v1::ads {

// A peer's address in gRPC's form.
struct RemoteAddress {
  std::string host;  // "ipv4:10.0.0.7", "ipv6:%5Bfd00::1%5D"
  std::string port;

  std::string str() const { return host + ':' + port; }  // as ServerContext::peer()
};

// Result: the address of the other end of the socket; empty host if it has left.
RemoteAddress remote_address(int descriptor);

// Not synchronized.
class ConnectionTable {
 public:
  // Adds a connection that has not shown a certificate yet. Precondition: `descriptor` is open.
  void add(int descriptor, const RemoteAddress& remote);
  // The peer at `remote` has shown a certificate that the mesh's roots signed.
  void verify(const std::string& remote);
  void forget_closed();

  std::size_t size() const { return open_.size(); }
  std::size_t unverified() const { return unverified_; }
  // Connections from one host that have not shown a certificate.
  std::size_t unverified_of(const std::string& host) const;

 private:
  struct Connection {
    std::uint64_t socket;  // the kernel's number of it, unique among open ones
    RemoteAddress remote;
    bool verified = false;
  };
  using Table = std::unordered_map<int, Connection>;

  void settle(const Connection& connection);
  Table::iterator erase(Table::iterator at);

  Table open_;  // by descriptor
  std::unordered_map<std::string, int> by_remote_;
  std::map<std::string, std::size_t> unverified_of_;  // by host
  std::size_t unverified_ = 0;
};

}  // namespace osm::inline v1::ads
