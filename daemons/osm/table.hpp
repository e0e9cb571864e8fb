// A table for people: columns as wide as their widest cell, two spaces between.
#pragma once

#include <string>
#include <vector>

namespace osm::cli {

using Row = std::vector<std::string>;

// Every row has as many cells as the header.
std::string table(const Row& header, const std::vector<Row>& rows);

}  // namespace osm::cli
