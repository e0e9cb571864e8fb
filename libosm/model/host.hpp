// A host and a port as programs and people write them: in objects, in options and in the header of
// a request.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/numbers.hpp"
#include "osm/ids.hpp"

namespace osm::inline v1::model {

struct Host {
  std::string name;          // an IPv4 address, or a DNS name in its one form: dns_name_of()
  std::optional<Port> port;  // absent: none is written

  friend bool operator==(const Host&, const Host&) = default;
};

// "api.shop", "API.shop.:8080". nullopt: neither a DNS name nor an IPv4 address, or the port is
// none.
inline std::optional<Host> host_of(std::string_view text) {
  Host out;
  if (const auto colon = text.rfind(':'); colon != text.npos) {
    out.port = port_of(text.substr(colon + 1));
    if (!out.port) return std::nullopt;
    text = text.substr(0, colon);
  }
  auto name = dns_name_of(text);
  if (!name) return std::nullopt;
  out.name = *std::move(name);
  return out;
}

}  // namespace osm::inline v1::model
