// "https://management.azure.com": a server of the settings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "osm/net/address.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::azure {

struct Server {
  bool tls = true;
  net::Address address;

  friend bool operator==(const Server&, const Server&) = default;
};

// Plain HTTP is for link-local addresses and this machine: a token must not cross a network in the
// clear. Failure: kInvalidField.
Result<Server> parse_server(std::string_view url);
// The path and query of `url`; nullopt: it is of another server. A port that is the scheme's own
// may be left out.
std::optional<std::string> target_at(const Server& server, std::string_view url);

}  // namespace osm::inline v1::azure
