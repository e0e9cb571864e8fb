// A proxy's words about what it refused often repeat what somebody wrote: a regex, a name. That is
// no proof, but a good first guess.
#pragma once

#include <string_view>
#include <vector>

#include "model/spec_objects.hpp"

namespace osm::inline v1::nack_provenance {

// Moves the last suspect of which `words` repeat something to the end. Result: whether there is
// one.
bool move_mentioned_last(std::string_view words, const model::SpecObjects& objects,
                         std::vector<ObjectKey>& suspects);

}  // namespace osm::inline v1::nack_provenance
