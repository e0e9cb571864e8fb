#include "error_codes.hpp"

#include <algorithm>
#include <array>

namespace osm::cli {
namespace {

// Markdown as plain text: of a link its words, no code marks.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends_link = text[i] == ']' && i + 1 < text.size() && text[i + 1] == '(';
    if (ends_link)
      i = text.find(')', i);
    else if (text[i] != '`' && text[i] != '[')
      out += text[i];
    if (i == std::string_view::npos) break;
  }
  return out;
}

// The cells of "| `code` | meaning | cause | remedy |".
CodeHelp row_of(std::string_view line) {
  std::array<std::string, 4> cells;
  line.remove_prefix(2);
  for (std::string& cell : cells) {
    const auto end = line.find(" |");
    if (end == std::string_view::npos) break;
    cell = plain(line.substr(0, end));
    line.remove_prefix(std::min(end + 3, line.size()));
  }
  return {cells[0], cells[1], cells[2], cells[3]};
}

std::vector<CodeHelp> rows_of(std::string_view page) {
  std::vector<CodeHelp> rows;
  while (!page.empty()) {
    const auto end = std::min(page.find('\n'), page.size());
    if (const auto line = page.substr(0, end); line.starts_with("| `"))
      rows.push_back(row_of(line));
    page.remove_prefix(std::min(end + 1, page.size()));
  }
  return rows;
}

}  // namespace

const std::vector<CodeHelp>& error_codes() {
  static const std::vector<CodeHelp> rows = rows_of(error_codes_page());
  return rows;
}

std::string remedy_of(std::string_view code) {
  for (const CodeHelp& row : error_codes())
    if (row.code == code) return row.remedy;
  return {};
}

}  // namespace osm::cli
