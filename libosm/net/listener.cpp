#include "net/listener.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/descriptor.hpp"

namespace osm::inline v1::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Endpoint = asio::generic::stream_protocol::endpoint;

// User of the process at the other end of a Unix socket.
std::optional<uid_t> peer_uid(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

Error failed(const error_code& error, const Address& address, std::string_view what) {
  const std::string message =
      "cannot " + std::string(what) + ' ' + address.str() + ": " + error.message();
  switch (error.value()) {
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

// True if no process accepts at `path`: a dead process left the socket behind.
bool is_abandoned(const Endpoint& endpoint, const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  // A process that lives but accepts nothing must not make this one wait.
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return ::connect(probe.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 &&
         errno == ECONNREFUSED;
}

Result<Endpoint> endpoint_of(asio::io_context& context, const Address& address) {
  if (address.is_unix()) {
    OSM_TRY(parse_address(address.str()));  // its length
    return Endpoint(asio::local::stream_protocol::endpoint(address.unix_path));
  }
  error_code error;
  asio::ip::tcp::resolver resolver(context);
  const auto found = resolver.resolve(address.host, std::to_string(address.port),
                                      asio::ip::tcp::resolver::passive, error);
  if (!error && !found.empty()) return Endpoint(found.begin()->endpoint());
  return Error{ErrorCode::kInvalidArgument,
               "cannot listen on " + address.str() + ": the host is unknown: " + error.message()};
}

// Binds the socket of a path. No client can connect before listen(), so the mode is never wider.
Status bind_unix(Listener& listener, const Endpoint& endpoint, const Address& address) {
  const std::string& path = address.unix_path;
  error_code error;
  listener.bind(endpoint, error);
  if (error == asio::error::address_in_use) {
    if (!is_abandoned(endpoint, path)) {
      return Error{ErrorCode::kUnavailable,
                   "cannot listen on " + address.str() +
                       ": another process serves this path, or it is not a socket; stop that "
                       "process or remove the file"};
    }
    ::unlink(path.c_str());
    listener.bind(endpoint, error);
  }
  if (error) return failed(error, address, "listen on");
  if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0) return {};
  return failed({errno, boost::system::system_category()}, address, "protect");
}

}  // namespace

Result<Listener> open_listener(asio::io_context& context, const Address& address) {
  OSM_TRY(const Endpoint endpoint, endpoint_of(context, address));
  Listener listener(context);
  error_code error;
  const auto protocol = endpoint.protocol();
  Descriptor opened(
      ::socket(protocol.family(), protocol.type() | SOCK_CLOEXEC, protocol.protocol()));
  if (!opened)
    return failed({errno, boost::system::system_category()}, address, "open a socket for");
  listener.assign(protocol, opened.get(), error);
  if (error) return failed(error, address, "open a socket for");
  opened.release();
  if (address.is_unix()) {
    OSM_TRY(bind_unix(listener, endpoint, address));
  } else {
    error_code ignored;  // a restart waits for TIME_WAIT of old connections then
    listener.set_option(asio::socket_base::reuse_address(true), ignored);
    listener.bind(endpoint, error);
  }
  if (!error) listener.listen(asio::socket_base::max_listen_connections, error);
  if (error) return failed(error, address, "listen on");
  return listener;
}

Address local_address(const Listener& listener, const Address& asked) {
  Address real = asked;
  error_code error;
  const Endpoint bound = listener.local_endpoint(error);
  if (error || asked.is_unix()) return real;
  asio::ip::tcp::endpoint tcp;
  std::memcpy(tcp.data(), bound.data(), bound.size());
  real.port = tcp.port();
  return real;
}

bool is_trusted_peer(int fd) {
  const std::optional<uid_t> uid = peer_uid(fd);
  return uid && (*uid == ::geteuid() || *uid == 0);
}

std::string client_text(int fd) {
  asio::ip::tcp::endpoint tcp;
  auto size = static_cast<socklen_t>(tcp.capacity());
  if (::getpeername(fd, tcp.data(), &size) != 0) return {};
  const int family = tcp.data()->sa_family;
  if (family == AF_INET || family == AF_INET6)
    return Address{tcp.address().to_string(), tcp.port(), ""}.str();
  const std::optional<uid_t> uid = peer_uid(fd);
  return uid ? "uid " + std::to_string(*uid) : "";
}

}  // namespace osm::inline v1::net
