// Which other resources a message needs, found by looking through all of it: for messages that
// this library did not write.
#pragma once

#include <google/protobuf/message.h>

#include <vector>

#include "translate/translate.hpp"

namespace osm::inline v1::translate {

// Ordered, unique. Unknown messages inside an Any name nothing.
std::vector<EncodedResource::Reference> references_of(const google::protobuf::Message& message);

}  // namespace osm::inline v1::translate
