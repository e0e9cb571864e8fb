// A proxy's text about a refusal often repeats a part of the refused object, such as a regex or a
// name. That is no proof, but a good first guess.
#pragma once

#include <string_view>
#include <vector>

#include "model/spec_objects.hpp"

namespace osm::inline v1::nack_provenance {

// Moves the last candidate of which `words` repeat a part to the end. Result: true if there is one.
bool move_mentioned_last(std::string_view words, const model::SpecObjects& objects,
                         std::vector<ObjectKey>& candidates);

}  // namespace osm::inline v1::nack_provenance
