#include "ads/wire.hpp"

#include <cstdint>

namespace osm::ads {
namespace {

// https://protobuf.dev/programming-guides/encoding/: what the five fields below need of it.
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

// google.rpc.Status.message
std::string_view status_message(Reader reader) {
  std::string_view message;
  while (!reader.at_end()) {
    const std::uint64_t tag = reader.varint();
    if (tag == (2 << 3 | 2)) {
      message = reader.bytes();
    } else {
      reader.skip(static_cast<WireType>(tag & 7));
    }
  }
  return message;
}

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
  Reader reader(bytes);
  while (!reader.at_end()) {
    const std::uint64_t tag = reader.varint();
    const auto type = static_cast<WireType>(tag & 7);
    if (type != WireType::kBytes) {
      reader.skip(type);
      continue;
    }
    const std::string_view value = reader.bytes();
    if (reader.failed()) break;
    switch (tag >> 3) {
      case 1:
        request.version = value;
        break;
      case 3:
        request.names.push_back(value);
        break;
      case 4:
        request.type_url = value;
        break;
      case 5:
        request.nonce = value;
        break;
      case 6:
        request.error = status_message(Reader(value));
        break;
      default:
        break;  // the node and what later versions add
    }
  }
  if (reader.failed())
    return Error{ErrorCode::kInvalidArgument, "the message is not a DiscoveryRequest"};
  return request;
}

std::string response_head(const Response& response) {
  std::string head;
  put_bytes(head, 1, response.version);
  put_bytes(head, 4, xds_type_url(response.type));
  put_bytes(head, 5, response.nonce);
  return head;
}

std::string resource_prefix(const EncodedResource& resource) {
  std::string prefix;
  put_varint(prefix, 2 << 3 | 2);
  put_varint(prefix, resource.any.size());
  return prefix;
}

std::size_t response_size(const Response& response) {
  std::size_t size = response_head(response).size();
  for (const EncodedPtr& resource : response.resources)
    size += resource_prefix(*resource).size() + resource->any.size();
  return size;
}

std::string serialize(const Response& response) {
  std::string bytes = response_head(response);
  for (const EncodedPtr& resource : response.resources)
    bytes += resource_prefix(*resource) + resource->any;
  return bytes;
}

}  // namespace osm::ads
