// Parses JSON texts as JSON: what YAML 1.2 reads otherwise (escapes beyond U+FFFF), and several
// values one after another.
#pragma once

#include <string_view>
#include <vector>

#include "spec/yaml.hpp"

namespace osm::inline v1::spec {

// Every value of the text, whose first line has the number `first_line`; an error ends the list.
// Failure: none. It never throws.
std::vector<YamlResult> parse_json(std::string_view text, int first_line, std::size_t max_nodes);

}  // namespace osm::inline v1::spec
