// The few fields of the xDS messages that a session needs, read and written without building the
// messages: a request is scanned in place, a response is a small head of its own and resources that
// all proxies share.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ads/resource_set.hpp"
#include "osm/proxy.hpp"
#include "osm/result.hpp"

namespace osm::ads {

// envoy.service.discovery.v3.DiscoveryRequest. Views into the bytes it was read from.
struct Request {
  std::string_view type_url;
  std::string_view version;
  std::string_view nonce;
  std::vector<std::string_view> names;
  std::optional<std::string_view> error;  // error_detail.message: a NACK, even when empty
};

// Failure: kInvalidArgument (not a DiscoveryRequest).
Result<Request> parse_request(std::string_view bytes);

// envoy.service.discovery.v3.DiscoveryResponse.
struct Response {
  XdsType type{};
  std::string version;
  std::string nonce;
  std::vector<EncodedPtr> resources;
};

// All fields but `resources`, serialized.
std::string response_head(const Response& response);
// What precedes each resource's `any` in the serialized response.
std::string resource_prefix(const EncodedResource& resource);
std::size_t response_size(const Response& response);
// The whole message in one string: tests and small transports.
std::string serialize(const Response& response);

}  // namespace osm::ads
