// Limits of a replica board's texts, equal for every implementation.
#pragma once

#include <map>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// Makes `text` the text of `topic`. Result: true if it is another one. Failure: kInvalidArgument,
// with the limit; nothing changes.
OSM_API Result<bool> set_board_text(std::map<std::string, std::string>& topics,
                                    const std::string& topic, std::string text);

}  // namespace osm::inline v1
