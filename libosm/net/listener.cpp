#include "net/listener.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace osm::inline v1::net {
namespace {

class Socket {
 public:
  explicit Socket(int family)
      : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Error failed(int code, const Address& address, std::string_view what) {
  std::string message = "cannot " + std::string(what) + ' ' + address.str() + ": " +
                        std::generic_category().message(code);
  switch (code) {
    case EADDRINUSE:
      return {ErrorCode::kUnavailable,
              message + "; another process listens there: stop it or choose another port"};
    case EADDRNOTAVAIL:
      return {ErrorCode::kInvalidArgument,
              message + "; the address must be one of this machine's own"};
    case EACCES:
    case EPERM:
      return {ErrorCode::kPermissionDenied,
              message + (address.is_unix() ? "; its directory must be writable for this user"
                                           : "; ports below 1024 need CAP_NET_BIND_SERVICE")};
    case ENOENT:
      return {ErrorCode::kStorage, message + "; create its directory first"};
    default:
      return {address.is_unix() ? ErrorCode::kStorage : ErrorCode::kUnavailable, message};
  }
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());  // parse_address bounds it
  return address;
}

// True if no process accepts at `path`: a dead process left the socket behind.
bool is_abandoned(const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(address.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const Socket probe(AF_UNIX);
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

Result<int> open_unix(const Address& address) {
  Socket socket(AF_UNIX);
  if (socket.get() < 0) return failed(errno, address, "open a socket for");
  const sockaddr_un where = unix_address(address.unix_path);
  const auto bind = [&] {
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
  };
  if (!bind()) {
    if (errno != EADDRINUSE) return failed(errno, address, "listen on");
    if (!is_abandoned(where)) {
      return Error{ErrorCode::kUnavailable,
                   "cannot listen on " + address.str() +
                       ": another process serves this path, or it is not a socket; stop that "
                       "process or remove the file"};
    }
    ::unlink(where.sun_path);
    if (!bind()) return failed(errno, address, "listen on");
  }
  // Set the mode before listen(): no client can connect before, so the socket never has a wider
  // mode.
  if (::chmod(where.sun_path, S_IRUSR | S_IWUSR) != 0) return failed(errno, address, "protect");
  if (::listen(socket.get(), SOMAXCONN) != 0) return failed(errno, address, "listen on");
  return socket.release();
}

}  // namespace

Result<int> open_listener(boost::asio::io_context& context, const Address& address) {
  if (address.is_unix()) return open_unix(address);
  boost::system::error_code error;
  boost::asio::ip::tcp::resolver resolver(context);
  const auto found = resolver.resolve(address.host, std::to_string(address.port),
                                      boost::asio::ip::tcp::resolver::passive, error);
  if (error || found.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "cannot listen on " + address.str() + ": the host is unknown: " + error.message()};
  }
  const auto endpoint = found.begin()->endpoint();
  Socket socket(endpoint.protocol().family());
  if (socket.get() < 0) return failed(errno, address, "open a socket for");
  const int on = 1;  // a restart does not wait for TIME_WAIT of old connections
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    return failed(errno, address, "listen on");
  if (::listen(socket.get(), SOMAXCONN) != 0) return failed(errno, address, "listen on");
  return socket.release();
}

Address local_address(int fd, const Address& asked) {
  if (asked.is_unix()) return asked;
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  Address real = asked;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return real;
  real.port = ntohs(storage.ss_family == AF_INET6
                        ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                        : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  return real;
}

bool is_trusted_peer(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace osm::inline v1::net
