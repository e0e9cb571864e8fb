// Objects that are nearly valid: one mesh with every kind and every optional field, and edits of
// its fields. Random YAML is refused at its first byte; an edited object gets as deep as its fault
// is.
#pragma once

#include <boost/json/value.hpp>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "osm/object.hpp"

namespace osm::fuzz {

// The base mesh as JSON, one value per object.
const std::vector<boost::json::value>& base_objects();

// One edit: a field removed, made null, of another type, of an extreme value, doubled, moved.
void edit(boost::json::value& object, Choices& choices);

// The Object that a store would make of it. The metadata is read as leniently as the JSON allows;
// where it is missing, the object still has a key.
Object object_of(const boost::json::value& document);

}  // namespace osm::fuzz
