// Text of golden files: YAML in which each line can be compared alone. A value that fits into a
// line is written in one, so that lines of brackets are rare. Blocks that repeat everywhere, such
// as the default access log, are written once, in a file of their own, and are aliases elsewhere.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/yaml.hpp"

namespace osm::translate_test {

// The first value under `key`, depth first. Result: null if there is none.
inline const boost::json::value* first_under(std::string_view key, const boost::json::value& in) {
  if (const auto* map = in.if_object()) {
    for (const auto& [name, value] : *map) {
      if (name == key) return &value;
      if (const auto* found = first_under(key, value)) return found;
    }
  }
  if (const auto* list = in.if_array())
    for (const auto& item : *list)
      if (const auto* found = first_under(key, item)) return found;
  return nullptr;
}

class GoldenText {
 public:
  // Each value that is one of `blocks`, in the same order of fields, becomes an alias of its name.
  explicit GoldenText(std::vector<std::pair<std::string, boost::json::value>> blocks)
      : blocks_(std::move(blocks)) {}

  std::string text_of(const boost::json::object& value) const {
    std::string out;
    for (const auto& [key, item] : value) write(item, scalar(key) + ": ", 0, out);
    return out;
  }

  // The blocks, each with the anchor that its aliases need.
  std::string blocks_text() const {
    std::string out;
    for (const auto& [name, value] : blocks_) {
      out += name + ": &" + name + '\n';
      GoldenText({}).write(value, "  ", 2, out);
    }
    return out;
  }

  // Reads `text` with the same parser as a controller, aliases replaced by their blocks.
  boost::json::object value_of(const std::string& text) const {
    const auto documents = spec::parse_yaml(blocks_text() + text);
    REQUIRE(documents.size() == 1);
    if (const auto* error = std::get_if<spec::YamlError>(&documents[0]))
      FAIL(error->line << ": " << error->cause);
    boost::json::object out = std::get<spec::YamlDocument>(documents[0]).value.as_object();
    for (const auto& [name, block] : blocks_) out.erase(name);
    return out;
  }

 private:
  static constexpr std::size_t kColumns = 100;

  // Plain where YAML cannot read anything but this string; else quoted as in JSON, which YAML
  // knows.
  static std::string scalar(const boost::json::value& value) {
    const auto* text = value.if_string();
    if (text == nullptr) return boost::json::serialize(value);
    const auto plain = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) ||
             std::string_view("_./|%-").find(c) != std::string_view::npos;
    };
    const std::string content(text->data(), text->size());
    std::string lower = content;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool word = !lower.empty() && (std::isalpha(lower[0]) || lower[0] == '/') &&
                      std::all_of(lower.begin(), lower.end(), plain);
    for (const char* other : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
      if (lower == other) return boost::json::serialize(value);
    return word ? content : boost::json::serialize(value);
  }

  // Result: false if the line has become too long; then `line` lacks the rest.
  bool append(const boost::json::value& value, std::string& line) const {
    const bool is_map = value.is_object();
    if (const auto alias = alias_of(value); !alias.empty()) {
      line += '*' + alias;
    } else if (!value.is_structured()) {
      line += scalar(value);
    } else {
      line += is_map ? '{' : '[';
      const char* separator = "";
      if (is_map) {
        for (const auto& [key, item] : value.get_object()) {
          line += std::exchange(separator, ", ") + scalar(key) + ": ";
          if (!append(item, line)) return false;
        }
      } else {
        for (const auto& item : value.get_array()) {
          line += std::exchange(separator, ", ");
          if (!append(item, line)) return false;
        }
      }
      line += is_map ? '}' : ']';
    }
    return line.size() <= kColumns;
  }

  static bool is_empty(const boost::json::value& value) {
    return value.is_object() ? value.get_object().empty() : value.get_array().empty();
  }

  std::string alias_of(const boost::json::value& value) const {
    if (!value.is_structured()) return "";
    for (const auto& [name, block] : blocks_)
      if (value == block && boost::json::serialize(value) == boost::json::serialize(block))
        return name;
    return "";
  }

  // `lead` is the beginning of the line; `indent` the column of further lines of this value.
  void write(const boost::json::value& value, std::string lead, std::size_t indent,
             std::string& out) const {
    std::string line = lead;
    const bool splits = value.is_structured() && !is_empty(value) && alias_of(value).empty();
    if (append(value, line) || !splits) {
      out += line + '\n';
      return;
    }
    const auto* map = value.if_object();
    if (lead.ends_with(": ")) {  // it begins on the next line
      lead.pop_back();
      out += lead + '\n';
      if (map != nullptr) indent += 2;
      lead = std::string(indent, ' ');
    }
    const auto next = [&] { return std::exchange(lead, std::string(indent, ' ')); };
    if (map != nullptr)
      for (const auto& [key, item] : *map) write(item, next() + scalar(key) + ": ", indent, out);
    else
      for (const auto& item : value.get_array()) write(item, next() + "- ", indent + 2, out);
  }

  std::vector<std::pair<std::string, boost::json::value>> blocks_;
};

}  // namespace osm::translate_test
