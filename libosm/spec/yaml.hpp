// YAML (and JSON, which is YAML) into JSON values that remember their lines. Types follow YAML's
// core schema: quoted scalars stay strings, plain ones may be null, bool, int or float. Input is
// hostile: depth, nodes and aliases are bounded, and what is ambiguous (duplicate keys, merge keys,
// own tags) is refused rather than guessed.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "osm/result.hpp"

namespace osm::inline v1::spec {

inline constexpr std::size_t kMaxFileBytes = 3 * 1024 * 1024;
inline constexpr std::size_t kMaxDepth = 64;
inline constexpr std::size_t kMaxNodes = 200'000;  // per document, aliases expanded

struct YamlDocument {
  boost::json::value value;
  int line = 0;                      // of its first node
  std::map<std::string, int> lines;  // "spec.rules[0].kind" → line
};

struct YamlError {
  ErrorCode code = ErrorCode::kInvalidSyntax;  // or kTooLarge
  int line = 0;
  std::string cause;
};

using YamlResult = std::variant<YamlDocument, YamlError>;

// Every document of a text, split at its `---` lines, each parsed by itself; documents without
// content are skipped. Never throws.
std::vector<YamlResult> parse_yaml(std::string_view text);

// "a.b[0]" and "labels[app.kubernetes.io/name]": how fields are named everywhere.
std::string field_path(std::string_view parent, std::string_view key);
std::string field_path(std::string_view parent, std::size_t index);

// At most `bytes` of a text that somebody wrote, for a message; cut between characters, with "...".
std::string shortened(std::string_view text, std::size_t bytes);

}  // namespace osm::inline v1::spec
