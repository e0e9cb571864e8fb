#include "install/template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/numbers.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::string_view kSpace = " \t\r\n";

// A fault of a template, or what its `fail` says; caught by expand_template.
struct Fault {
  ErrorCode code;
  std::string text;
};

[[noreturn]] void refuse(std::string text) {
  throw Fault{ErrorCode::kInvalidSyntax, std::move(text)};
}

// A text or an action ("{{ ... }}", without its braces), with its line.
struct Piece {
  bool action;
  std::string_view text;
  std::size_t line;
};

std::string_view trimmed_left(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text;
}

std::string_view trimmed_right(std::string_view text) {
  const std::size_t last = text.find_last_not_of(kSpace);
  return text.substr(0, last == text.npos ? 0 : last + 1);
}

std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces;
  const std::string_view whole = text;
  bool trim_next = false;
  while (true) {
    const std::size_t open = text.find("{{");
    std::string_view before = text.substr(0, open);
    if (trim_next) before = trimmed_left(before);
    if (open != text.npos && text.substr(open).starts_with("{{- ")) before = trimmed_right(before);
    pieces.push_back({false, before, 0});
    if (open == text.npos) return pieces;
    const auto line = static_cast<std::size_t>(
        std::count(whole.begin(),
                   whole.begin() + (text.data() - whole.data()) + static_cast<std::ptrdiff_t>(open),
                   '\n') +
        1);
    const std::size_t close = text.find("}}", open);
    if (close == text.npos) refuse(fmt::format("line {}: '{{{{' without '}}}}'", line));
    std::string_view action = text.substr(open + 2, close - open - 2);
    if (action.starts_with("- ")) action.remove_prefix(1);
    trim_next = action.ends_with(" -");
    if (trim_next) action.remove_suffix(1);
    text.remove_prefix(close + 2);
    pieces.push_back({true, trimmed_left(trimmed_right(action)), line});
  }
}

// As text/template's truth: empty texts, lists and maps, 0 and null are false.
bool truth(const json::value& value) {
  if (const auto* flag = value.if_bool()) return *flag;
  if (const auto* text = value.if_string()) return !text->empty();
  if (const auto* list = value.if_array()) return !list->empty();
  if (const auto* map = value.if_object()) return !map->empty();
  if (const auto number = whole_number(value)) return *number != 0;
  return !value.is_null();
}

std::string printed(const json::value& value) {
  if (const auto* text = value.if_string()) return std::string(*text);
  if (value.is_array() || value.is_object() || value.is_null())
    refuse("a list, a map or nothing has no text: use toYaml or toJson");
  return json::serialize(value);
}

// Keys in order, as Go writes them.
json::value sorted(const json::value& value) {
  if (const auto* list = value.if_array()) {
    json::array out;
    for (const json::value& item : *list) out.push_back(sorted(item));
    return out;
  }
  const auto* map = value.if_object();
  if (map == nullptr) return value;
  std::vector<std::string_view> names;
  for (const auto& field : *map) names.push_back(field.key());
  std::sort(names.begin(), names.end());
  json::object out;
  for (const std::string_view name : names) out[name] = sorted(map->at(name));
  return out;
}

// Block style at the top, so that other lines may follow; JSON, which is YAML, below.
std::string to_yaml(const json::value& value) {
  std::string text;
  const json::value ordered = sorted(value);
  const json::object* map = ordered.if_object();
  const json::array* list = ordered.if_array();
  if (map != nullptr && !map->empty()) {
    for (const auto& field : *map)
      text += fmt::format("{}: {}\n", json::serialize(json::value(field.key())),
                          json::serialize(field.value()));
  } else if (list != nullptr && !list->empty()) {
    for (const json::value& item : *list) text += "- " + json::serialize(item) + "\n";
  } else {
    return json::serialize(ordered);
  }
  text.pop_back();
  return text;
}

std::string indented(std::int64_t columns, std::string_view text) {
  if (columns < 0 || columns > 100) refuse("nindent takes 0 to 100 columns");
  const std::string indent(static_cast<std::size_t>(columns), ' ');
  std::string out = "\n" + indent;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += indent;
  }
  return out;
}

// Evaluates the expression of one action.
class Expression {
 public:
  Expression(std::string_view text, const json::object& root) : rest_(text), root_(root) {}

  json::value evaluate() {
    json::value value = pipeline();
    if (!rest_.empty()) refuse(fmt::format("'{}' is not understood", rest_));
    return value;
  }

 private:
  static constexpr std::string_view kVersions = ".Capabilities.APIVersions";
  static constexpr std::string_view kHas = ".Capabilities.APIVersions.Has ";

  void skip() { rest_ = trimmed_left(rest_); }

  bool take(char c) {
    skip();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view word() {
    const std::size_t end = std::min(rest_.find_first_of(" \t\r\n()|"), rest_.size());
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return found;
  }

  json::value pipeline() {
    json::value value = command(nullptr);
    while (take('|')) value = command(&value);
    skip();
    return value;
  }

  // One function with its arguments, or one value. `piped` is the last argument.
  json::value command(const json::value* piped) {
    skip();
    if (rest_.starts_with(kHas)) {
      rest_.remove_prefix(kHas.size());
      skip();
      const json::value wanted = operand();
      const json::value served = at(kVersions);
      if (!served.is_array() || !wanted.is_string()) refuse("Has takes one text");
      return std::ranges::find(served.get_array(), wanted) != served.get_array().end();
    }
    const bool is_function = !rest_.empty() && rest_.front() >= 'a' && rest_.front() <= 'z' &&
                             !rest_.starts_with("true") && !rest_.starts_with("false");
    if (!is_function) {
      if (piped != nullptr) refuse("a value cannot be piped into a value");
      return operand();
    }
    const std::string_view name = word();
    std::vector<json::value> arguments;
    for (skip(); !rest_.empty() && rest_.front() != '|' && rest_.front() != ')'; skip())
      arguments.push_back(operand());
    if (piped != nullptr) arguments.push_back(*piped);
    return call(name, arguments);
  }

  json::value operand() {
    if (take('(')) {
      if (++depth_ > kMostParentheses) refuse("there are too many '('");
      json::value value = pipeline();
      if (!take(')')) refuse("a ')' is missing");
      return value;
    }
    if (take('"')) return quoted();
    const std::string_view found = word();
    if (found.starts_with('.')) return at(found);
    if (found == "true" || found == "false") return found == "true";
    if (const auto number = number_of<std::int64_t>(found)) return *number;
    refuse(fmt::format("'{}' is no value", found));
  }

  json::value quoted() {
    const std::size_t end = rest_.find_first_of("\"\\");
    if (end == rest_.npos || rest_[end] == '\\') refuse("a text must end, and have no '\\'");
    json::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  json::value at(std::string_view path) const {
    const json::object* map = &root_;
    std::string_view left = path.substr(1);
    while (true) {
      const std::size_t dot = left.find('.');
      const auto* found = map->if_contains(left.substr(0, dot));
      if (found == nullptr) refuse(fmt::format("{} is not set", path));
      if (dot == left.npos) return *found;
      map = found->if_object();
      if (map == nullptr) refuse(fmt::format("{} is not set", path));
      left.remove_prefix(dot + 1);
    }
  }

  static std::int64_t whole(const json::value& value) {
    const auto number = whole_number(value);
    if (!number) refuse("a whole number is needed");
    return *number;
  }

  static json::value call(std::string_view name, const std::vector<json::value>& a) {
    const auto takes = [&](std::size_t count) {
      if (a.size() != count) refuse(fmt::format("{} takes {} arguments", name, count));
      return true;
    };
    if (name == "not" && takes(1)) return !truth(a[0]);
    if (name == "or" && !a.empty()) {
      const auto found = std::find_if(a.begin(), a.end(), truth);
      return found == a.end() ? a.back() : *found;
    }
    if (name == "eq" && takes(2)) return a[0] == a[1];
    if (name == "gt" && takes(2)) return whole(a[0]) > whole(a[1]);
    if (name == "int" && takes(1)) return whole(a[0]);
    if (name == "default" && takes(2)) return truth(a[1]) ? a[1] : a[0];
    if (name == "toJson" && takes(1)) return json::value(json::serialize(sorted(a[0])));
    if (name == "toYaml" && takes(1)) return json::value(to_yaml(a[0]));
    if (name == "nindent" && takes(2)) return json::value(indented(whole(a[0]), printed(a[1])));
    if (name == "fail" && takes(1)) throw Fault{ErrorCode::kInvalidArgument, printed(a[0])};
    refuse(fmt::format("there is no function {}", name));
  }

  static constexpr int kMostParentheses = 100;

  std::string_view rest_;
  const json::object& root_;
  int depth_ = 0;  // of '(' so far
};

// Expands the pieces of one template.
class Expansion {
 public:
  Expansion(std::vector<Piece> pieces, const json::object& root)
      : pieces_(std::move(pieces)), root_(root) {}

  std::string run() {
    block(true);
    if (next_ != pieces_.size()) refuse(at_line("there is an 'end' or 'else' too many"));
    return std::move(out_);
  }

 private:
  std::string at_line(std::string_view text) const {
    return fmt::format("line {}: {}", pieces_[std::min(next_, pieces_.size() - 1)].line, text);
  }

  json::value value_of(std::string_view expression) const {
    try {
      return Expression(expression, root_).evaluate();
    } catch (const Fault& fault) {
      if (fault.code == ErrorCode::kInvalidArgument) throw;
      refuse(at_line(fault.text));
    }
  }

  // Up to the `else` or `end` that belongs to an outer block, which is not consumed.
  void block(bool wanted) {
    for (; next_ < pieces_.size(); ++next_) {
      const Piece& piece = pieces_[next_];
      if (!piece.action) {
        if (wanted) out_ += piece.text;
      } else if (piece.text.starts_with("/*")) {
        continue;
      } else if (piece.text.starts_with("if ")) {
        branches(wanted);
      } else if (piece.text == "end" || piece.text.starts_with("else")) {
        return;
      } else if (wanted) {
        out_ += printed_at(value_of(piece.text));
      }
    }
  }

  std::string printed_at(const json::value& value) const {
    try {
      return printed(value);
    } catch (const Fault& fault) {
      refuse(at_line(fault.text));
    }
  }

  void branches(bool wanted) {
    const std::size_t line = pieces_[next_].line;
    bool open = wanted;  // no branch was taken yet
    std::string_view condition = pieces_[next_].text.substr(3);
    while (true) {
      const bool taken = open && (condition.empty() || truth(value_of(condition)));
      if (taken) open = false;
      ++next_;
      block(taken);
      if (next_ == pieces_.size()) refuse(fmt::format("line {}: an 'if' has no 'end'", line));
      const std::string_view word = pieces_[next_].text;
      if (word == "end") return;
      condition =
          word == "else" ? std::string_view() : word.substr(std::string_view("else if ").size());
      if (word != "else" && !word.starts_with("else if "))
        refuse(at_line("'else' is not understood"));
    }
  }

  std::vector<Piece> pieces_;
  const json::object& root_;
  std::size_t next_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> expand_template(std::string_view name, std::string_view text,
                                    const boost::json::object& root) {
  try {
    return Expansion(pieces_of(text), root).run();
  } catch (Fault& fault) {
    if (fault.code == ErrorCode::kInvalidArgument) return Error{fault.code, fault.text};
    return Error{fault.code, fmt::format("{}: {}", name, fault.text)};
  }
}

}  // namespace osm::inline v1::kubernetes
