#include "osm/net/address.hpp"

#include <sys/un.h>

#include <boost/asio/ip/address.hpp>
#include <cstdint>

#include "base/numbers.hpp"

namespace osm::inline v1::net {
namespace {

Error invalid(std::string_view text, std::string_view why) {
  return {ErrorCode::kInvalidArgument,
          "'" + std::string(text) + "' is not an address: " + std::string(why) +
              "; write HOST:PORT, such as 127.0.0.1:9091 or [::1]:9091"};
}

}  // namespace

std::string Address::str() const {
  if (is_unix()) return "unix:" + unix_path;
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

bool Address::is_this_machine() const {
  boost::system::error_code other;  // a name
  return is_unix() || host == "localhost" ||
         boost::asio::ip::make_address(host, other).is_loopback();
}

Result<Address> parse_address(std::string_view text) {
  if (text.starts_with("unix:")) {
    const std::string path(text.substr(5));
    if (path.empty()) return invalid(text, "the path of the socket is missing");
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
      return Error{ErrorCode::kInvalidArgument,
                   "the path of the socket " + path + " is longer than " +
                       std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                       " bytes, which the kernel refuses; use a shorter directory"};
    }
    return Address{"", 0, path};
  }
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid(text, "the port is missing");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return invalid(text, "']' is missing");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return invalid(text, "an IPv6 address needs brackets");
  }
  if (host.empty()) return invalid(text, "the host is missing (0.0.0.0 is every interface)");
  const auto number = number_of<std::uint16_t>(port);
  if (!number) return invalid(text, "the port is not a number from 0 to 65535");
  return Address{std::string(host), *number, ""};
}

}  // namespace osm::inline v1::net
