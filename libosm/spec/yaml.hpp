// Parses YAML and JSON into JSON values with their lines. Types of YAML follow its core
// schema: quoted scalars stay strings; plain ones may be null, bool, int or float. Input is
// hostile: depth, nodes and aliases are limited. Ambiguous input (duplicate keys, merge keys, own
// tags) is refused rather than guessed.
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

// Bounds of one text.
struct YamlLimits {
  std::size_t bytes = kMaxFileBytes;
  std::size_t nodes = kMaxNodes;
};

struct YamlDocument {
  boost::json::value value;
  int line = 0;                      // line of its first node
  std::map<std::string, int> lines;  // "spec.rules[0].kind" → line
};

struct YamlError {
  ErrorCode code = ErrorCode::kInvalidSyntax;  // or kTooLarge
  int line = 0;
  std::string cause;
};

using YamlResult = std::variant<YamlDocument, YamlError>;

// Every document of a text, split at its `---` lines and parsed separately. JSON between two such
// lines may be several documents. Documents without content are skipped. Never throws.
std::vector<YamlResult> parse_yaml(std::string_view text, const YamlLimits& limits = {});

// Path of a field, in the one form for all messages: "a.b[0]", "labels[app.kubernetes.io/name]".
std::string field_path(std::string_view parent, std::string_view key);
std::string field_path(std::string_view parent, std::size_t index);

// At most `bytes` of a user-written text, for a message; cut between characters, with "...".
std::string shortened(std::string_view text, std::size_t bytes);

}  // namespace osm::inline v1::spec
