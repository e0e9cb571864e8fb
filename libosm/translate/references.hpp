// References of a message to other resources, found by a search of the whole message: for messages
// of foreign code.
#pragma once

#include <google/protobuf/message.h>

#include <vector>

#include "translate/translate.hpp"

namespace osm::inline v1::translate {

// Result: ordered, unique. Unknown messages inside an Any are skipped.
std::vector<EncodedResource::Reference> references_of(const google::protobuf::Message& message);

}  // namespace osm::inline v1::translate
