#include "table.hpp"

#include <algorithm>
#include <cstddef>

namespace osm::cli {

std::string table(const Row& header, const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < header.size(); ++column) {
    std::size_t width = header[column].size();
    for (const Row& row : rows) width = std::max(width, row[column].size());
    widths.push_back(width);
  }
  std::string out;
  const auto add = [&](const Row& row) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      if (column + 1 < row.size()) line.append(widths[column] + 2 - row[column].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  add(header);
  for (const Row& row : rows) add(row);
  return out;
}

}  // namespace osm::cli
