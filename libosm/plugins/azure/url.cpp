#include "azure/url.hpp"

#include <algorithm>

namespace osm::inline v1::azure {
namespace {

constexpr std::size_t kMaxUrl = 8192;

struct Split {
  bool tls = true;
  std::string host;  // with its port, lower case
  std::string_view target;
};

std::optional<Split> split(std::string_view url) {
  Split out;
  if (url.starts_with("https://"))
    url.remove_prefix(8);
  else if (url.starts_with("http://"))
    out.tls = false, url.remove_prefix(7);
  else
    return std::nullopt;
  const auto end = std::min(url.find_first_of("/?#"), url.size());
  out.host = url.substr(0, end);
  for (char& c : out.host)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  out.target = url.substr(end);
  const auto colon = out.host.rfind(':');
  if (colon == std::string::npos || out.host.ends_with(']')) out.host += out.tls ? ":443" : ":80";
  return out;
}

bool is_link_local(const std::string& host) { return host.starts_with("169.254."); }

}  // namespace

Result<Server> parse_server(std::string_view url) {
  const auto parts = split(url);
  const auto fault = [&](const std::string& cause) {
    return Error{ErrorCode::kInvalidField, "'" + std::string(url) + "' " + cause};
  };
  if (!parts) return fault("must begin with https://");
  if (!parts->target.empty() && parts->target != "/")
    return fault("must be a server without a path, such as https://management.azure.com");
  auto address = net::parse_address(parts->host);
  if (!address || address->is_unix() || parts->host.find('@') != std::string::npos)
    return fault("has no host; write https://HOST or https://HOST:PORT");
  if (!parts->tls && !address->is_this_machine() && !is_link_local(address->host))
    return fault(
        "must begin with https://: tokens are sent in the clear only on this machine and "
        "to link-local addresses");
  return Server{parts->tls, *std::move(address)};
}

std::optional<std::string> target_at(const Server& server, std::string_view url) {
  if (url.size() > kMaxUrl) return std::nullopt;
  const auto parts = split(url);
  if (!parts || parts->tls != server.tls || !parts->target.starts_with('/')) return std::nullopt;
  const auto address = net::parse_address(parts->host);
  if (!address || *address != server.address) return std::nullopt;
  const bool clean = std::all_of(parts->target.begin(), parts->target.end(),
                                 [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '#'; });
  return clean ? std::optional(std::string(parts->target)) : std::nullopt;
}

}  // namespace osm::inline v1::azure
