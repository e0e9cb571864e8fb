#include "translate/json.hpp"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <memory>

#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {

std::optional<std::string> to_json(const google::protobuf::Message& message, bool indent) {
  namespace util = google::protobuf::util;
  const std::unique_ptr<util::TypeResolver> types(util::NewTypeResolverForDescriptorPool(
      "type.googleapis.com", google::protobuf::DescriptorPool::generated_pool()));
  util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.add_whitespace = indent;
  std::string text;
  // Print from bytes rather than from the message: maps then keep the order of the bytes. Printing
  // the message would serialize it again, in any order.
  const auto printed =
      util::BinaryToJsonString(types.get(), "type.googleapis.com/" + message.GetTypeName(),
                               deterministic_bytes(message), &text, options);
  return printed.ok() ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace osm::inline v1::translate
