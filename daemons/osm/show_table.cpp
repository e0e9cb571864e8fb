#include "show_table.hpp"

#include <algorithm>

#include "command.hpp"

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

std::string text(const boost::json::value& value) {
  if (value.is_string()) return value.as_string().empty() ? "-" : printable(value.as_string());
  if (value.is_int64()) return std::to_string(value.as_int64());
  if (value.is_uint64()) return std::to_string(value.as_uint64());
  if (value.is_bool()) return value.as_bool() ? "yes" : "no";
  return "-";
}

std::vector<Row> rows_of(const boost::json::value& answer, std::string_view name,
                         std::initializer_list<std::string_view> fields) {
  std::vector<Row> rows;
  for (const boost::json::value& object : list_at(answer, name)) {
    Row& row = rows.emplace_back();
    for (const std::string_view field : fields) row.push_back(cell(object, field));
  }
  return rows;
}

std::string joined(const boost::json::array& list) {
  std::string out;
  for (const boost::json::value& item : list) out += (out.empty() ? "" : ", ") + text(item);
  return out.empty() ? "-" : out;
}

}  // namespace osm::cli
