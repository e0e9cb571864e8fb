// YAML that people wrote, as JSON.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// One document. Plain scalars have the types of YAML's core schema; quoted ones stay texts.
// Failure: kInvalidSyntax, with the line.
OSM_API Result<boost::json::value> read_yaml(std::string_view text);

}  // namespace osm::inline v1::kubernetes
