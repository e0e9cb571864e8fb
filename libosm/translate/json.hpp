// Messages as JSON, with proto field names, as Envoy's own admin interface writes them. Equal
// messages give equal text.
#pragma once

#include <google/protobuf/message.h>

#include <optional>
#include <string>

namespace osm::inline v1::translate {

// nullopt: an Any inside holds a type this library does not know, or bytes that are not of it.
std::optional<std::string> to_json(const google::protobuf::Message& message, bool indent);

// Of an Any by its bytes, as an EncodedResource holds it; the message alone, without "@type".
std::optional<std::string> any_to_json(const std::string& any, bool indent);

}  // namespace osm::inline v1::translate
