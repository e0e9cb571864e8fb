// Public parts of a secret.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <optional>
#include <string>

namespace osm::inline v1::translate {

// An encoded secret in the JSON form of an Any, with fingerprints instead of certificates and
// without its key; nullopt if the bytes are no secret.
std::optional<google::protobuf::Struct> redacted_secret(const std::string& any);

}  // namespace osm::inline v1::translate
