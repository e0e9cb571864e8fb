// The codes of errors with their meaning and remedy, from docs/error-codes.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace osm::cli {

// A row of the page, as plain text.
struct CodeHelp {
  std::string code;
  std::string meaning;
  std::string cause;
  std::string remedy;
};

// In the order of the page. Thread: any.
const std::vector<CodeHelp>& error_codes();

// Empty: there is no such code.
std::string remedy_of(std::string_view code);

// The page. CMake makes it from docs/error-codes.md.
std::string_view error_codes_page();

}  // namespace osm::cli
