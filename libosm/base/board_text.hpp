// What fits on a replicas' board, wherever it stands: what one takes, each takes.
#pragma once

#include <map>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// Whether `text` may be the word on `topic` beside those on other topics.
// Failure: kInvalidArgument, with the bound.
OSM_API Status check_board_text(const std::map<std::string, std::string>& topics,
                                const std::string& topic, const std::string& text);

}  // namespace osm::inline v1
