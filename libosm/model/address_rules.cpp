#include "model/address_rules.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "model/egress.hpp"

namespace osm::inline v1::model {
namespace {

constexpr std::uint32_t ip(std::uint32_t a, std::uint32_t b, std::uint32_t c = 0) {
  return a << 24 | b << 16 | c << 8;
}

// Networks of unicast addresses that the public internet does not route (RFC 6890), without
// link-local ones, at which clouds serve credentials.
constexpr std::array kNotPublic{
    Ipv4Network{ip(10, 0), 8},         Ipv4Network{ip(100, 64), 10},
    Ipv4Network{ip(172, 16), 12},      Ipv4Network{ip(192, 0, 2), 24},
    Ipv4Network{ip(192, 168), 16},     Ipv4Network{ip(198, 18), 15},
    Ipv4Network{ip(198, 51, 100), 24}, Ipv4Network{ip(203, 0, 113), 24},
    Ipv4Network{ip(240, 0), 4},
};

}  // namespace

bool may_claim(const std::vector<AddressAllotment>& allotments, const std::string& address,
               const std::string& ns) {
  in_addr parsed{};
  if (inet_pton(AF_INET, address.c_str(), &parsed) != 1) return false;
  const Ipv4Network one{ntohl(parsed.s_addr), 32};
  int longest = -1;
  bool allowed = false;
  for (const AddressAllotment& allotment : allotments)
    for (const Ipv4Network& network : allotment.networks) {
      if (!holds(network, one) || network.length < longest) continue;
      const bool named = std::any_of(
          allotment.namespaces.begin(), allotment.namespaces.end(),
          [&](const std::string& candidate) { return candidate == "*" || candidate == ns; });
      // One network in two elements belongs to the namespaces of both.
      allowed = named || (allowed && network.length == longest);
      longest = network.length;
    }
  if (longest >= 0) return allowed;
  return std::any_of(kNotPublic.begin(), kNotPublic.end(),
                     [&](const Ipv4Network& network) { return holds(network, one); });
}

}  // namespace osm::inline v1::model
