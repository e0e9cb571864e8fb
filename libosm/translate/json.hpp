// Messages as JSON with proto field names, as in Envoy's admin interface. Equal messages give equal
// text.
#pragma once

#include <google/protobuf/message.h>

#include <optional>
#include <string>

namespace osm::inline v1::translate {

// Nullopt: a nested Any has a type that is not linked in, or invalid bytes.
std::optional<std::string> to_json(const google::protobuf::Message& message, bool indent);

}  // namespace osm::inline v1::translate
