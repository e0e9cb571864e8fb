#include <string_view>

#include "etcd/gateway.hpp"

namespace osm::inline v1::etcd {
namespace {

constexpr std::string_view kTls = "https://";
constexpr std::string_view kPlain = "http://";
constexpr const char* kPort = ":2379";

Error refused(const std::string& text, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "etcd endpoint '" + text + "': " + why};
}

}  // namespace

Result<Endpoint> parse_endpoint(const std::string& text) {
  std::string_view rest = text;
  const bool tls = rest.starts_with(kTls);
  if (!tls && !rest.starts_with(kPlain))
    return refused(text, "is no URL of an etcd: write https://HOST:2379");
  rest.remove_prefix((tls ? kTls : kPlain).size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@") != std::string_view::npos)
    return refused(text, "has more than scheme, host and port: write https://HOST:2379");

  std::string host_and_port(rest);
  const auto bracket = host_and_port.rfind(']');
  const auto after_host = bracket == std::string::npos ? 0 : bracket;
  if (host_and_port.find(':', after_host) == std::string::npos) host_and_port += kPort;
  const auto address = net::parse_address(host_and_port);
  if (!address.ok()) return refused(text, address.error().message);
  if (address->is_unix()) return refused(text, "is a socket: write https://HOST:2379");
  if (!tls && !address->is_this_machine())
    return refused(text,
                   "would show the CA's key to the network: write https://, and let etcd serve "
                   "TLS (--cert-file, --key-file)");
  return Endpoint{std::string(tls ? kTls : kPlain) + address->str(), *address, tls};
}

}  // namespace osm::inline v1::etcd
