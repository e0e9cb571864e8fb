#include "ads/wire.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <limits>

#include "base/utf8.hpp"

namespace osm::inline v1::ads {
namespace {

using google::protobuf::internal::WireFormatLite;

// Calls `field(number, bytes)` for every length-delimited field. Result: true if it is a message.
template <class F>
bool for_each_field(std::string_view message, F field) {
  if (message.size() > std::numeric_limits<int>::max()) return false;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                                            static_cast<int>(message.size()));
  while (const std::uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    int size = 0;
    if (number == 0 || !in.ReadVarintSizeAsInt(&size)) return false;
    const std::string_view bytes = message.substr(static_cast<std::size_t>(in.CurrentPosition()));
    if (!in.Skip(size)) return false;
    field(number, bytes.substr(0, static_cast<std::size_t>(size)));
  }
  return in.ConsumedEntireMessage();
}

// Limit of an error's text that is kept, logged and shown.
constexpr std::size_t kMaxErrorBytes = 4096;

// Limits the texts of one message that are kept.
class Texts {
 public:
  // Like protobuf, reads text that is not UTF-8 as empty: it would break a response or an answer
  // that quotes it.
  std::string_view text(std::string_view bytes) {
    broken_ = broken_ || !is_utf8(bytes);
    return bytes;
  }

  // Keeps the names of a hostile request from taking more memory than its bytes.
  template <class T>
  void put(std::vector<T>& names, T name) {
    excessive_ = excessive_ || names.size() >= kMaxNames;
    if (!excessive_) names.push_back(name);
  }

  // google.rpc.Status.message
  std::string_view status_message(std::string_view status) {
    std::string_view message;
    for_each_field(status, [&](int number, std::string_view bytes) {
      if (number == 2) message = text(bytes);
    });
    if (message.size() <= kMaxErrorBytes) return message;
    message = message.substr(0, kMaxErrorBytes);
    while (!broken_ && !is_utf8(message))
      message.remove_suffix(1);  // it was cut inside a character
    return message;
  }

  // An entry of map<string, string> initial_resource_versions.
  DeltaRequest::Held held_entry(std::string_view entry) {
    DeltaRequest::Held held;
    for_each_field(entry, [&](int number, std::string_view bytes) {
      if (number == 1) held.name = text(bytes);
      if (number == 2) held.version = text(bytes);
    });
    return held;
  }

  Status judge(std::string_view message, bool whole) const {
    if (!whole || broken_)
      return Error{ErrorCode::kInvalidArgument, "the message is not a " + std::string(message)};
    if (excessive_)
      return Error{ErrorCode::kInvalidArgument, "the " + std::string(message) + " has more than " +
                                                    std::to_string(kMaxNames) + " resource names"};
    return {};
  }

 private:
  bool broken_ = false;
  bool excessive_ = false;
};

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_bytes(std::string& out, int field, std::string_view value) {
  put_varint(out, static_cast<std::uint64_t>(field) << 3 | 2);
  put_varint(out, value.size());
  out += value;
}

}  // namespace

Result<Request> parse_request(std::string_view bytes) {
  Request request;
  Texts texts;
  const bool whole = for_each_field(bytes, [&](int number, std::string_view value) {
    // Skip the node and what later versions add.
    if (number == 1) request.version = texts.text(value);
    if (number == 3) texts.put(request.names, texts.text(value));
    if (number == 4) request.type_url = texts.text(value);
    if (number == 5) request.nonce = texts.text(value);
    if (number == 6) request.error = texts.status_message(value);
  });
  OSM_TRY(texts.judge("DiscoveryRequest", whole));
  return request;
}

Result<DeltaRequest> parse_delta_request(std::string_view bytes) {
  DeltaRequest request;
  Texts texts;
  const bool whole = for_each_field(bytes, [&](int number, std::string_view value) {
    // Skip the node and what later versions add.
    if (number == 2) request.type_url = texts.text(value);
    if (number == 3) texts.put(request.subscribe, texts.text(value));
    if (number == 4) texts.put(request.unsubscribe, texts.text(value));
    if (number == 5) texts.put(request.held, texts.held_entry(value));
    if (number == 6) request.nonce = texts.text(value);
    if (number == 7) request.error = texts.status_message(value);
  });
  OSM_TRY(texts.judge("DeltaDiscoveryRequest", whole));
  return request;
}

std::string_view user_agent_name(XdsVariant variant, std::string_view bytes) {
  std::string_view name;
  const int node = variant == XdsVariant::kDelta ? 1 : 2;
  for_each_field(bytes, [&](int number, std::string_view value) {
    if (number != node) return;
    for_each_field(value, [&](int inner, std::string_view text) {
      if (inner == 6) name = text;
    });
  });
  return name;
}

std::string resource_version(const EncodedResource& resource) { return resource.hash.hex(); }

std::string response_head(const Response& response) {
  std::string head;
  put_bytes(head, 1, response.version);
  put_bytes(head, 4, xds_type_url(response.type));
  put_bytes(head, 5, response.nonce);
  for (const std::string& name : response.removed) put_bytes(head, 6, name);
  if (!response.control_plane.empty()) {
    std::string control_plane;
    put_bytes(control_plane, 1, response.control_plane);
    put_bytes(head, response.variant == XdsVariant::kDelta ? 7 : 6, control_plane);
  }
  return head;
}

std::string resource_prefix(XdsVariant variant, const EncodedResource& resource) {
  std::string inner;  // envoy.service.discovery.v3.Resource up to its `resource`
  if (variant == XdsVariant::kDelta) {
    put_bytes(inner, 1, resource_version(resource));
    put_bytes(inner, 3, resource.name);
    put_varint(inner, 2 << 3 | 2);
    put_varint(inner, resource.any.size());
  }
  std::string prefix;
  put_varint(prefix, 2 << 3 | 2);
  put_varint(prefix, inner.size() + resource.any.size());
  return prefix + inner;
}

std::size_t response_size(const Response& response) {
  std::size_t size = response_head(response).size();
  for (const EncodedPtr& resource : response.resources)
    size += resource_prefix(response.variant, *resource).size() + resource->any.size();
  return size;
}

std::string serialize(const Response& response) {
  std::string bytes = response_head(response);
  for (const EncodedPtr& resource : response.resources)
    bytes += resource_prefix(response.variant, *resource) + resource->any;
  return bytes;
}

}  // namespace osm::inline v1::ads
