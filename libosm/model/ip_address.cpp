#include "model/ip_address.hpp"

#include <arpa/inet.h>

#include <array>
#include <string>

#include "osm/detail/api.hpp"

namespace osm::inline v1::model {
namespace {

bool is_address(int family, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return false;
  std::array<unsigned char, 16> bytes{};
  return inet_pton(family, std::string(text).c_str(), bytes.data()) == 1;
}

}  // namespace

// Exported for the other libraries of this project.
OSM_API bool is_ipv4(std::string_view text) { return is_address(AF_INET, text); }
OSM_API bool is_ipv6(std::string_view text) { return is_address(AF_INET6, text); }

}  // namespace osm::inline v1::model
