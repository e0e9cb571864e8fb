// Limits of a replica board's texts, equal for every implementation.
#pragma once

#include <map>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// Checks that `text` may be the text of `topic`, given the texts of other topics.
// Failure: kInvalidArgument, with the limit.
OSM_API Status check_board_text(const std::map<std::string, std::string>& topics,
                                const std::string& topic, const std::string& text);

}  // namespace osm::inline v1
