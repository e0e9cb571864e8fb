// What every reader of the API's JSON needs.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// An object at most 256 deep: schemas in CRDs are deeper than Boost's own bound.
// Failure: kInvalidSyntax, prefixed with `what`, never quoting the text.
Result<boost::json::object> parse_object(std::string_view text, std::string_view what);

// A member that is a string / an object; empty / null when there is none such.
std::string text_of(const boost::json::object& map, std::string_view name);
const boost::json::object* map_of(const boost::json::object& map, std::string_view name);
boost::json::object* map_of(boost::json::object& map, std::string_view name);

}  // namespace osm::inline v1::kubernetes
