// Answers for programs.
#include <yaml-cpp/emitter.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <string>
#include <string_view>

#include "command.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

// True if no reader of YAML, of 1.1 or 1.2, takes the unquoted text for anything but a text. The
// emitter itself knows what breaks the syntax.
bool is_plainly_text(std::string_view text) {
  constexpr std::array<std::string_view, 11> kWords{"y",   "n",    "yes",   "no",   "on", "off",
                                                    "nan", "true", "false", "null", "inf"};
  if (text.empty() || (!std::isalpha(static_cast<unsigned char>(text.front())) && text[0] != '/'))
    return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end() &&
         text.find_first_of("\t\n\r") == std::string_view::npos;
}

// True for the ends of lines that are no ASCII, which YAML folds: U+0085, U+2028 and U+2029; and
// for what a terminal must not see.
bool needs_escapes(std::string_view text) {
  for (const std::string_view end : {"\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"})
    if (text.find(end) != std::string_view::npos) return true;
  std::string visible(text);
  std::erase_if(visible, [](char c) { return c == '\n' || c == '\t' || c == '\r'; });
  return printable(visible) != visible;
}

void emit(YAML::Emitter& yaml, std::string_view text) {
  if (needs_escapes(text)) {
    yaml << YAML::DoubleQuoted << YAML::EscapeNonAscii;
  } else if (!is_plainly_text(text)) {
    yaml << YAML::DoubleQuoted;
  }
  yaml << std::string(text);
}

void emit(YAML::Emitter& yaml, const json::value& value) {
  if (const json::object* const map = value.if_object()) {
    if (map->empty()) yaml << YAML::Flow;
    yaml << YAML::BeginMap;
    for (const auto& [key, member] : *map) {
      yaml << YAML::Key;
      emit(yaml, std::string_view(key));
      yaml << YAML::Value;
      emit(yaml, member);
    }
    yaml << YAML::EndMap;
  } else if (const json::array* const list = value.if_array()) {
    if (list->empty()) yaml << YAML::Flow;
    yaml << YAML::BeginSeq;
    for (const json::value& item : *list) emit(yaml, item);
    yaml << YAML::EndSeq;
  } else if (const json::string* const text = value.if_string()) {
    emit(yaml, std::string_view(*text));
  } else if (const double* const number = value.if_double()) {
    yaml << *number;
  } else if (const bool* const flag = value.if_bool()) {
    yaml << *flag;
  } else if (value.is_null()) {
    yaml << YAML::Null;
  } else {
    yaml << json::serialize(value);  // a whole number
  }
}

}  // namespace

std::string Flags::written(const json::value& answer) const {
  // JSON reads the escapes as the characters.
  if (output != "yaml") return escape_controls(json::serialize(answer), "\\u00") + '\n';
  YAML::Emitter yaml;
  emit(yaml, answer);
  return std::string(yaml.c_str()) + '\n';
}

}  // namespace osm::cli
