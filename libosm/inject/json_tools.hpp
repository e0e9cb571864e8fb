// Access to nested JSON, and differences as patches.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string_view>

namespace osm::inline v1::inject {

// The member `inner` of the map `outer` in `object`; null if there is none.
boost::json::value* find(boost::json::object& object, std::string_view outer,
                         std::string_view inner);

// The map at that place; created if it is missing or null. Precondition: no value of another type
// is there, nor in the place of `outer`.
boost::json::object& map_at(boost::json::object& object, std::string_view outer,
                            std::string_view inner);
// The same for a list.
boost::json::array& list_at(boost::json::object& object, std::string_view outer,
                            std::string_view inner);

// The JSON Patch (RFC 6902) from `from` to `to`. Members are set by "add", which API servers also
// accept for null members. A list of another length is replaced whole.
boost::json::array json_patch(const boost::json::object& from, const boost::json::object& to);

}  // namespace osm::inline v1::inject
