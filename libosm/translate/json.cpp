#include "translate/json.hpp"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <memory>

#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

namespace util = google::protobuf::util;

// Print from bytes rather than from a message: maps then keep the order of the bytes. Printing a
// message would serialize it again, in any order.
std::optional<std::string> print(const std::string& type_url, const std::string& bytes,
                                 bool indent) {
  const std::unique_ptr<util::TypeResolver> types(util::NewTypeResolverForDescriptorPool(
      "type.googleapis.com", google::protobuf::DescriptorPool::generated_pool()));
  util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.add_whitespace = indent;
  std::string text;
  if (!util::BinaryToJsonString(types.get(), type_url, bytes, &text, options).ok())
    return std::nullopt;
  return text;
}

}  // namespace

std::optional<std::string> to_json(const google::protobuf::Message& message, bool indent) {
  return print("type.googleapis.com/" + message.GetTypeName(), deterministic_bytes(message),
               indent);
}

std::optional<std::string> any_to_json(const std::string& any, bool indent) {
  google::protobuf::Any unpacked;
  if (!unpacked.ParseFromString(any)) return std::nullopt;
  return print(unpacked.type_url(), unpacked.value(), indent);
}

}  // namespace osm::inline v1::translate
