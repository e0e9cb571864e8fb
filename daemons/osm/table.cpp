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

std::string printable(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool c1 = byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0;  // U+0080 on
    if (c1) ++i;
    if (c1 || byte(i) < 0x20 || byte(i) == 0x7f) {
      out += "\\x";
      out += kDigits[byte(i) >> 4];
      out += kDigits[byte(i) & 15];
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace osm::cli
