// Address of an etcd, in the form of its own tools: a URL of scheme, host and port.
#pragma once

#include <string>

#include "osm/net/address.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::etcd {

struct Endpoint {
  std::string url;  // as errors name it: "https://10.0.0.1:2379"
  net::Address address;
  bool tls = true;
};

// Failure: kInvalidArgument, with the remedy, for an invalid URL and for plain HTTP to another
// machine.
Result<Endpoint> parse_endpoint(const std::string& text);

}  // namespace osm::inline v1::etcd
