#include "ads/wire.hpp"

#include <cstdint>

#include "base/utf8.hpp"

namespace osm::inline v1::ads {
namespace {

// https://protobuf.dev/programming-guides/encoding/: what the fields below need of it.
enum class WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }
  bool failed() const { return failed_; }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return fail();
  }

  std::string_view bytes() {
    const std::uint64_t length = varint();
    if (failed_ || length > rest_.size()) {
      fail();
      return {};
    }
    const std::string_view value = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return value;
  }

  void skip(WireType type) {
    if (type == WireType::kVarint) {
      varint();
    } else if (type == WireType::kBytes) {
      bytes();
    } else if (type == WireType::kFixed64 || type == WireType::kFixed32) {
      const std::size_t size = type == WireType::kFixed64 ? 8 : 4;
      if (rest_.size() < size) {
        fail();
      } else {
        rest_.remove_prefix(size);
      }
    } else {
      fail();
    }
  }

 private:
  std::uint64_t fail() {
    failed_ = true;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool failed_ = false;
};

// Calls `field(number, bytes)` for every length-delimited field. Result: whether it is a message.
template <class F>
bool for_each_field(std::string_view message, F field) {
  Reader reader(message);
  while (!reader.at_end()) {
    const std::uint64_t tag = reader.varint();
    const auto type = static_cast<WireType>(tag & 7);
    if (type != WireType::kBytes) {
      reader.skip(type);
      continue;
    }
    const std::string_view bytes = reader.bytes();
    if (!reader.failed()) field(tag >> 3, bytes);
  }
  return !reader.failed();
}

// Kept, logged and shown to people: so much of it says what is wrong.
constexpr std::size_t kMaxErrorBytes = 4096;

// The texts of one message, as far as they may be kept.
class Texts {
 public:
  // As protobuf, takes nothing for text that is not UTF-8: it would break what quotes it, be it a
  // response to the proxy or an answer to people.
  std::string_view text(std::string_view bytes) {
    broken_ = broken_ || !is_utf8(bytes);
    return bytes;
  }

  // Keeps a hostile request's names from taking more memory than its bytes.
  template <class T>
  void put(std::vector<T>& names, T name) {
    excessive_ = excessive_ || names.size() >= kMaxNames;
    if (!excessive_) names.push_back(name);
  }

  // google.rpc.Status.message
  std::string_view status_message(std::string_view status) {
    std::string_view message;
    for_each_field(status, [&](std::uint64_t number, std::string_view bytes) {
      if (number == 2) message = text(bytes);
    });
    if (message.size() <= kMaxErrorBytes) return message;
    message = message.substr(0, kMaxErrorBytes);
    while (!broken_ && !is_utf8(message)) message.remove_suffix(1);  // cut in a character
    return message;
  }

  // An entry of map<string, string> initial_resource_versions.
  DeltaRequest::Held held_entry(std::string_view entry) {
    DeltaRequest::Held held;
    for_each_field(entry, [&](std::uint64_t number, std::string_view bytes) {
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
  const bool whole = for_each_field(bytes, [&](std::uint64_t number, std::string_view value) {
    switch (number) {
      case 1:
        request.version = texts.text(value);
        break;
      case 3:
        texts.put(request.names, texts.text(value));
        break;
      case 4:
        request.type_url = texts.text(value);
        break;
      case 5:
        request.nonce = texts.text(value);
        break;
      case 6:
        request.error = texts.status_message(value);
        break;
      default:
        break;  // the node and what later versions add
    }
  });
  if (Status judged = texts.judge("DiscoveryRequest", whole); !judged) return judged.error();
  return request;
}

Result<DeltaRequest> parse_delta_request(std::string_view bytes) {
  DeltaRequest request;
  Texts texts;
  const bool whole = for_each_field(bytes, [&](std::uint64_t number, std::string_view value) {
    switch (number) {
      case 2:
        request.type_url = texts.text(value);
        break;
      case 3:
        texts.put(request.subscribe, texts.text(value));
        break;
      case 4:
        texts.put(request.unsubscribe, texts.text(value));
        break;
      case 5:
        texts.put(request.held, texts.held_entry(value));
        break;
      case 6:
        request.nonce = texts.text(value);
        break;
      case 7:
        request.error = texts.status_message(value);
        break;
      default:
        break;  // the node and what later versions add
    }
  });
  if (Status judged = texts.judge("DeltaDiscoveryRequest", whole); !judged) return judged.error();
  return request;
}

std::string resource_version(const EncodedResource& resource) { return resource.hash.hex(); }

std::string response_head(const Response& response) {
  std::string head;
  put_bytes(head, 1, response.version);
  put_bytes(head, 4, xds_type_url(response.type));
  put_bytes(head, 5, response.nonce);
  for (const std::string& name : response.removed) put_bytes(head, 6, name);
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
