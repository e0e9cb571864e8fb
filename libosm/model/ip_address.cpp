#include "model/ip_address.hpp"

#include <arpa/inet.h>

#include <array>
#include <optional>
#include <string>

#include "osm/detail/api.hpp"

namespace osm::inline v1::model {
namespace {

using Bytes = std::array<unsigned char, 16>;

std::optional<Bytes> parsed(int family, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  Bytes bytes{};
  if (inet_pton(family, std::string(text).c_str(), bytes.data()) != 1) return std::nullopt;
  return bytes;
}

}  // namespace

// Exported for the other libraries of this project.
OSM_API bool is_ipv4(std::string_view text) { return parsed(AF_INET, text).has_value(); }
OSM_API bool is_ipv6(std::string_view text) { return parsed(AF_INET6, text).has_value(); }

OSM_API bool is_unicast_ipv4(std::string_view text) {
  const auto bytes = parsed(AF_INET, text);
  if (!bytes) return false;
  const int first = bytes->front();
  const bool multicast = first >= 224 && first < 240;
  return first != 0 && first != 127 && !multicast && text != "255.255.255.255";
}

}  // namespace osm::inline v1::model
