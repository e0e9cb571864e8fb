// Values of the chart: its defaults, changed by files and by settings, and checked by its schema.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// Sets the members of `changes` in `values`: maps are merged, everything else is replaced.
void merge_values(boost::json::object& values, const boost::json::object& changes);

// Sets "osm.injector.replicaCount=3,osm.imagePullSecrets[0].name=key": assignments as Helm's --set
// has them. A list is {a,b}; a "\" before a comma, brace or dot takes it as it is. Whole numbers,
// true and false have their types. OpenServiceMesh at the top is another name of osm, as the
// high-availability design of OSM has it. Failure: kInvalidArgument, naming the assignment.
Status set_values(boost::json::object& values, std::string_view assignments);

// Renames the member OpenServiceMesh to osm.
// Failure: kInvalidArgument: both are there.
Status rename_design_values(boost::json::object& values);

// Compares `values` with the JSON schema of the chart: type, enum, pattern, minimum, maximum,
// items, properties and additionalProperties. Failure: kInvalidField: the path of the first wrong
// value, what it must be, and how many more are wrong.
Status check_values(const boost::json::object& values, const boost::json::object& schema);

}  // namespace osm::inline v1::kubernetes
