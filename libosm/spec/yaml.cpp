#include "spec/yaml.hpp"

#include <re2/re2.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "spec/document_builder.hpp"
#include "spec/json_text.hpp"

namespace osm::inline v1::spec {
namespace {

namespace json = boost::json;

constexpr std::string_view kTagPrefix = "tag:yaml.org,2002:";

std::optional<json::value> integer_of(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text;
  if (negative || text.starts_with('+')) digits.remove_prefix(1);
  int base = 10;
  if (digits == text && (digits.starts_with("0x") || digits.starts_with("0o"))) {
    base = digits[1] == 'x' ? 16 : 8;
    digits.remove_prefix(2);
  }
  std::uint64_t magnitude = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, fault] = std::from_chars(digits.data(), end, magnitude, base);
  if (fault != std::errc{} || stop != end) return std::nullopt;
  constexpr std::uint64_t kLargest = INT64_MAX;
  if (magnitude <= kLargest) {
    const auto value = static_cast<std::int64_t>(magnitude);
    return json::value(negative ? -value : value);
  }
  if (negative) return std::nullopt;
  return json::value(magnitude);
}

std::optional<json::value> float_of(std::string_view text) {
  static const RE2 kFloat(R"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)");
  if (!RE2::FullMatch(re2::StringPiece(text.data(), text.size()), kFloat)) return std::nullopt;
  const auto value = number_of<double>(text.starts_with('+') ? text.substr(1) : text);
  return value ? std::optional(json::value(*value)) : std::nullopt;
}

json::value plain_scalar(const std::string& text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (auto value = integer_of(text)) return *std::move(value);
  if (auto value = float_of(text)) return *std::move(value);
  return json::string(text);
}

// Cost of a copy of `value`, in nodes: long strings count as several.
std::size_t weight_of(const json::value& value) {
  constexpr std::size_t kBytesPerNode = 64;
  std::size_t weight = 1;
  if (const auto* text = value.if_string()) weight += text->size() / kBytesPerNode;
  if (const auto* list = value.if_array())
    for (const auto& item : *list) weight += weight_of(item);
  if (const auto* map = value.if_object())
    for (const auto& [key, item] : *map) weight += key.size() / kBytesPerNode + weight_of(item);
  return weight;
}

std::size_t depth_of(const json::value& value) {
  std::size_t deepest = 0;
  if (const auto* list = value.if_array())
    for (const auto& item : *list) deepest = std::max(deepest, depth_of(item));
  if (const auto* map = value.if_object())
    for (const auto& [key, item] : *map) deepest = std::max(deepest, depth_of(item));
  return deepest + (value.is_structured() ? 1 : 0);
}

// Gives yaml-cpp's events to a builder, and expands aliases.
class YamlEvents final : public YAML::EventHandler {
 public:
  YamlEvents(int first_line, std::size_t max_nodes)
      : first_line_(first_line), builder_(max_nodes) {}

  DocumentBuilder& builder() { return builder_; }

  void OnDocumentStart(const YAML::Mark&) override {
    if (!builder_.empty())
      throw Refused{
          {ErrorCode::kInvalidSyntax, builder_.line(), "a second document without a `---` line"}};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (builder_.at_key()) refuse(mark, "an empty or null key");
    remember(anchor, builder_.add(line_of(mark), json::value(nullptr)));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (builder_.at_key()) refuse(mark, "an alias as a key");
    const auto at = anchors_.find(anchor);
    if (at == anchors_.end()) refuse(mark, "an alias inside its own anchor");
    builder_.spend(at->second.weight, line_of(mark));
    builder_.check_depth(at->second.depth, line_of(mark));
    builder_.add(line_of(mark), json::value(at->second.value));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    // yaml-cpp makes one byte of the escapes \N and \_.
    if (!is_utf8(text))
      refuse(mark, R"(an escape that is not UTF-8 text; write \u0085 for \N and \u00a0 for \_)");
    if (builder_.at_key()) {
      if (text == "<<") refuse(mark, "merge keys (<<) are not supported; write the fields out");
      builder_.key(line_of(mark), text);
    } else if (tag == "?") {
      remember(anchor, builder_.add(line_of(mark), plain_scalar(text)));
    } else if (tag == "!" || tag == std::string(kTagPrefix) + "str") {
      remember(anchor, builder_.add(line_of(mark), json::string(text)));
    } else {
      refuse(mark, "the tag " + tag + " is not supported; leave it out");
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, json::array());
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, json::object());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Anchored {
    json::value value;
    std::size_t weight = 0;
    std::size_t depth = 0;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string cause) const {
    throw Refused{{ErrorCode::kInvalidSyntax, line_of(mark), std::move(cause)}};
  }
  int line_of(const YAML::Mark& mark) const { return first_line_ + mark.line; }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, json::value value) {
    if (builder_.at_key()) refuse(mark, "a map or a list as a key");
    builder_.open(line_of(mark), std::move(value));
    open_.push_back(anchor);
  }

  void close() {
    const YAML::anchor_t anchor = open_.back();
    open_.pop_back();
    remember(anchor, builder_.close());
  }

  // Nested anchors are copied repeatedly, so they count like aliases.
  void remember(YAML::anchor_t anchor, const json::value& value) {
    if (anchor == YAML::NullAnchor) return;
    const std::size_t weight = weight_of(value);
    builder_.spend(weight, builder_.line());
    anchors_[anchor] = {value, weight, depth_of(value)};
  }

  const int first_line_;
  DocumentBuilder builder_;
  std::vector<YAML::anchor_t> open_;  // of the open maps and lists
  std::map<YAML::anchor_t, Anchored> anchors_;
};

std::optional<YamlResult> parse_document(std::string_view text, int first_line,
                                         std::size_t max_nodes) {
  std::istringstream in{std::string(text)};
  YamlEvents events(first_line, max_nodes);
  try {
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(events)) {
    }
    if (events.builder().empty()) return std::nullopt;
    return events.builder().take();
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const YAML::Exception& fault) {
    return YamlError{ErrorCode::kInvalidSyntax, first_line + std::max(fault.mark.line, 0),
                     "not YAML: " + fault.msg};
  } catch (const std::exception& fault) {
    return YamlError{ErrorCode::kInvalidSyntax, first_line,
                     std::string("not YAML: ") + fault.what()};
  }
}

// The first carriage return that ends no line; npos: there is none.
std::size_t lone_return(std::string_view text) {
  std::size_t at = text.find('\r');
  while (at != text.npos && text.substr(at + 1).starts_with('\n')) at = text.find('\r', at + 1);
  return at;
}

// Line of the first byte that is not UTF-8 text; 0: none. yaml-cpp accepts such bytes, but Envoy's
// protos cannot contain them.
int line_of_bad_text(std::string_view text) {
  int line = 1;
  while (!text.empty()) {
    const std::size_t length = text.front() == '\0' ? 0 : utf8_length(text);
    if (length == 0) return line;
    line += text.front() == '\n';
    text.remove_prefix(length);
  }
  return 0;
}

bool is_separator(std::string_view line) {
  return line.starts_with("---") && (line.size() == 3 || line[3] == ' ' || line[3] == '\t');
}

// The text between two separators.
struct TextSection {
  std::string_view text;
  int first_line = 1;
};

bool is_error(const YamlResult& result) { return std::holds_alternative<YamlError>(result); }

// The section without a separator that has its line for itself, and without blank space.
TextSection without_separator(TextSection section) {
  std::string_view& text = section.text;
  if (const auto end = std::min(text.find('\n'), text.size());
      is_separator(text) && text.substr(0, end).find_first_not_of("- \t\r") == text.npos) {
    text.remove_prefix(std::min(end + 1, text.size()));
    ++section.first_line;
  }
  const auto begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  section.first_line += static_cast<int>(std::count(text.begin(), text.begin() + begin, '\n'));
  text.remove_prefix(begin);
  return section;
}

// True if a text that begins with '{' was meant as JSON: its first key is in quotes.
bool has_quoted_key(std::string_view text) {
  const auto key = text.find_first_not_of(" \t\r\n", 1);
  return key != text.npos && text[key] == '"';
}

// A section that begins with '{' is JSON, unless only YAML can read it.
void parse_section(const TextSection& section, std::size_t max_nodes,
                   std::vector<YamlResult>& out) {
  const TextSection inner = without_separator(section);
  std::vector<YamlResult> as_json;
  if (inner.text.starts_with('{')) as_json = parse_json(inner.text, inner.first_line, max_nodes);
  if (!as_json.empty() && std::none_of(as_json.begin(), as_json.end(), is_error)) {
    std::move(as_json.begin(), as_json.end(), std::back_inserter(out));
    return;
  }
  auto as_yaml = parse_document(section.text, section.first_line, max_nodes);
  if (!as_yaml) return;
  const bool neither = !as_json.empty() && is_error(*as_yaml);
  out.push_back(neither && has_quoted_key(inner.text) ? std::move(as_json.back())
                                                      : *std::move(as_yaml));
}

bool has_content(std::string_view line) {
  if (is_separator(line)) line.remove_prefix(3);
  const auto first = line.find_first_not_of(" \t\r");
  return first != std::string_view::npos && line[first] != '#' && line[first] != '%' &&
         !line.starts_with("...");
}

}  // namespace

std::string field_path(std::string_view parent, std::string_view key) {
  std::string path(parent);
  if (key.find_first_of("./[]") != std::string_view::npos)
    return path.append("[").append(key) + ']';
  if (!path.empty()) path += '.';
  return path.append(key);
}

std::string field_path(std::string_view parent, std::size_t index) {
  return std::string(parent) + '[' + std::to_string(index) + ']';
}

std::string shortened(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return std::string(text.substr(0, bytes)) + "...";
}

std::vector<YamlResult> parse_yaml(std::string_view text, const YamlLimits& limits) {
  std::vector<YamlResult> documents;
  if (text.size() > limits.bytes) {
    documents.push_back(YamlError{
        ErrorCode::kTooLarge, 0,
        "larger than " + std::to_string(limits.bytes / 1024 / 1024) + " MB; split the file"});
    return documents;
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (const int line = line_of_bad_text(text); line != 0) {
    documents.push_back(YamlError{ErrorCode::kInvalidSyntax, line, "not UTF-8 text"});
    return documents;
  }
  // JSON takes it for blank space, and yaml-cpp for a character of a word.
  if (const auto at = lone_return(text); at != text.npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + at, '\n');
    documents.push_back(
        YamlError{ErrorCode::kInvalidSyntax, static_cast<int>(line),
                  "a carriage return without a line feed; end lines with a line feed"});
    return documents;
  }
  std::size_t start = 0;
  int first_line = 1;
  int line_number = 1;
  bool content = false;
  const auto finish = [&](std::size_t end) {
    if (content)
      parse_section({text.substr(start, end - start), first_line}, limits.nodes, documents);
    start = end;
    first_line = line_number;
    content = false;
  };
  for (std::size_t at = 0; at < text.size(); ++line_number) {
    const auto end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (is_separator(line)) finish(at);
    content = content || has_content(line);
    at = end + 1;
  }
  finish(text.size());
  return documents;
}

}  // namespace osm::inline v1::spec
