// A table for people: columns as wide as their widest cell, two spaces between.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.hpp"

namespace osm::cli {

using Row = std::vector<std::string>;

// Every row has as many cells as the header.
std::string table(const Row& header, const std::vector<Row>& rows);

// Foreign text (a proxy's refusal, a key of a file) for a terminal: control characters, which
// could move its cursor or write its clipboard, become "\\x1b".
inline std::string printable(std::string_view text) { return escape_controls(text, "\\x"); }

}  // namespace osm::cli
