// Public parts of a secret.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osm::inline v1::translate {

// SHA-256 of each certificate in a PEM text, in lower-case hex, as openssl prints it. Other content
// of the text is skipped.
std::vector<std::string> certificate_fingerprints(std::string_view pem);

// An encoded secret in the JSON form of an Any, with fingerprints instead of certificates and
// without its key; nullopt if the bytes are no secret.
std::optional<google::protobuf::Struct> redacted_secret(const std::string& any);

}  // namespace osm::inline v1::translate
