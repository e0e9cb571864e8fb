// YAML to JSON and back: a document is refused with its line, or means the same when it is written
// as JSON. JSON that YAML accepts means what a reader of JSON takes it for.
//
//   input: a file.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "fuzz/fuzz.hpp"
#include "spec/yaml.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;
using spec::YamlDocument;
using spec::YamlError;

// YAML gives up on longer keys.
constexpr std::size_t kMaxKey = 500;

std::size_t longest_key(const json::value& value) {
  std::size_t longest = 0;
  if (const auto* list = value.if_array())
    for (const json::value& item : *list) longest = std::max(longest, longest_key(item));
  if (const auto* map = value.if_object())
    for (const auto& [key, item] : *map) {
      // A control character takes six bytes.
      longest = std::max({longest, json::serialize(json::string(key)).size(), longest_key(item)});
    }
  return longest;
}

std::size_t nodes_of(const json::value& value) {
  std::size_t nodes = 1;
  if (const auto* list = value.if_array())
    for (const json::value& item : *list) nodes += nodes_of(item);
  if (const auto* map = value.if_object())
    for (const auto& [key, item] : *map) nodes += nodes_of(item);
  return nodes;
}

// 1 and 1.0 are one number in JSON, and Boost.JSON rounds the last digits. YAML takes a number that
// no double can hold for text.
bool same_number(const json::value& yaml, double number) {
  if (!yaml.is_number()) return yaml.is_string() && !std::isnormal(number);
  // Boost.JSON takes 0e10972 for no number.
  return std::isnan(number) ||
         std::abs(yaml.to_number<double>() - number) <= 1e-12 * std::abs(number);
}

bool same(const json::value& a, const json::value& b) {
  if (b.is_number()) return same_number(a, b.to_number<double>());
  if (a.is_array() && b.is_array()) return std::ranges::equal(a.get_array(), b.get_array(), same);
  if (!a.is_object() || !b.is_object()) return a == b;
  return a.get_object().size() == b.get_object().size() &&
         std::ranges::all_of(a.get_object(), [&](const auto& one) {
           const json::value* other = b.get_object().if_contains(one.key());
           return other != nullptr && same(one.value(), *other);
         });
}

void check(const YamlDocument& document, int lines) {
  require(document.line >= 1 && document.line <= lines, "a document begins at one of the lines");
  for (const auto& [path, line] : document.lines)
    require(line >= document.line && line <= lines, "a field is at one of its lines", path);
  require(nodes_of(document.value) <= spec::kMaxNodes, "a document has so many values at most");
  const std::string text = json::serialize(document.value);
  if (text.size() > spec::kMaxFileBytes || longest_key(document.value) > kMaxKey) return;
  const auto again = spec::parse_yaml(text);
  require(again.size() == 1, "a document as JSON is one document", text);
  const auto* read = std::get_if<YamlDocument>(&again.front());
  require(read != nullptr, "a document as JSON is accepted", text);
  require(read->value == document.value, "a document as JSON means the same", text);
}

void run(std::string_view text) {
  const int lines = static_cast<int>(std::ranges::count(text, '\n')) + 1;
  const auto results = spec::parse_yaml(text);
  for (const spec::YamlResult& result : results) {
    if (const auto* document = std::get_if<YamlDocument>(&result)) {
      check(*document, lines);
    } else {
      const auto& error = std::get<YamlError>(result);
      require(error.line >= 0 && error.line <= lines + 1 && !error.cause.empty(),
              "a refusal has its line and its cause", error.cause);
    }
  }
  boost::system::error_code fault;
  const json::value strict = json::parse(text, fault);
  if (fault || results.size() != 1) return;
  if (const auto* document = std::get_if<YamlDocument>(&results.front()))
    require(same(document->value, strict), "JSON means in YAML what it means in JSON", text);
}

const bool kAdded = add("yaml_json", [](std::string_view input) { run(input); });

}  // namespace
