// What may be shown of a secret.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osm::inline v1::translate {

// The SHA-256 of each certificate in a PEM text, in lower-case hex: the fingerprint that openssl
// prints. Anything else in the text is passed over.
std::vector<std::string> certificate_fingerprints(std::string_view pem);

// An encoded secret with fingerprints in place of its certificates and nothing of its key, in the
// JSON form of an Any; nullopt when the bytes are no secret.
std::optional<google::protobuf::Struct> redacted_secret(const std::string& any);

}  // namespace osm::inline v1::translate
