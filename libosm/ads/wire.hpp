// Reads and writes the few fields of xDS messages that a session needs, without building the
// messages. Requests are scanned in place. A response is a small head and resources that all
// proxies share.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ads/resource_set.hpp"
#include "osm/result.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::ads {

// Limit for resource names in one request, and in one type's subscription.
inline constexpr std::size_t kMaxNames = 65'536;

// envoy.service.discovery.v3.DiscoveryRequest. Views into the bytes it was read from.
struct Request {
  std::string_view type_url;
  std::string_view version;
  std::string_view nonce;
  std::vector<std::string_view> names;
  std::optional<std::string_view> error;  // error_detail.message: a NACK, even when empty
};

// envoy.service.discovery.v3.DeltaDiscoveryRequest. Views into the bytes it was read from.
struct DeltaRequest {
  struct Held {
    std::string_view name;
    std::string_view version;
  };
  std::string_view type_url;
  std::string_view nonce;
  std::vector<std::string_view> subscribe;
  std::vector<std::string_view> unsubscribe;
  std::vector<Held> held;                 // initial_resource_versions
  std::optional<std::string_view> error;  // error_detail.message: a NACK, even when empty
};

// Parses a request. Failure: kInvalidArgument (not such a message, or more than kMaxNames names).
Result<Request> parse_request(std::string_view bytes);
Result<DeltaRequest> parse_delta_request(std::string_view bytes);

// node.user_agent_name of a request, of either variant; empty: none. A view into the bytes.
std::string_view user_agent_name(XdsVariant variant, std::string_view bytes);

// envoy.service.discovery.v3.DiscoveryResponse or DeltaDiscoveryResponse.
struct Response {
  XdsType type{};
  std::string version;
  std::string nonce;
  std::vector<EncodedPtr> resources;
  XdsVariant variant = XdsVariant::kSotw;
  std::vector<std::string> removed;  // delta only
  std::string control_plane{};       // control_plane.identifier
};

// The version of one resource in delta; equal on every replica.
std::string resource_version(const EncodedResource& resource);

// All fields but `resources`, serialized.
std::string response_head(const Response& response);
// The bytes before each resource's `any` in the serialized response.
std::string resource_prefix(XdsVariant variant, const EncodedResource& resource);
std::size_t response_size(const Response& response);
// The whole message in one string, for tests and small transports.
std::string serialize(const Response& response);

}  // namespace osm::inline v1::ads
