#include "migrate/paths.hpp"

#include <string_view>

#include "model/path_forms.hpp"

namespace osm::inline v1::migrate {
namespace {

constexpr int kMaxBound = 1024;
constexpr char kOther = '\x01';  // in a shape: one character that is no '/', '.', '%' or '\'

RE2::Options quiet() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

// True if the class or escape accepts a character that other forms consist of.
bool accepts_special(const std::string& one_character) {
  const RE2 regex(one_character, quiet());
  if (!regex.ok()) return true;
  for (const char* text : {"/", ".", "%", "\\"})
    if (RE2::FullMatch(text, regex)) return true;
  return false;
}

// End of the class that begins at `at`; npos: none.
std::size_t end_of_class(std::string_view regex, std::size_t at) {
  std::size_t i = at + 1;
  if (i < regex.size() && regex[i] == '^') ++i;
  if (i < regex.size() && regex[i] == ']') ++i;
  for (; i < regex.size(); ++i) {
    if (regex[i] == '\\') {
      ++i;
    } else if (regex.substr(i, 2) == "[:") {
      const auto end = regex.find(":]", i);
      if (end == std::string_view::npos) return end;
      i = end + 1;
    } else if (regex[i] == ']') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// Reads an expression of literals and character classes, without groups and alternatives, into a
// text with kOther for each character of a class.
class Shape {
 public:
  explicit Shape(const std::string& regex) : regex_(regex) {}

  // False: the expression has something else, or may accept special characters by a class.
  bool read() {
    for (std::size_t at = 0; at < regex_.size();) {
      const char c = regex_[at];
      std::string atom(1, c);
      if (c == '\\' || c == '[') {
        const auto end = c == '[' ? end_of_class(regex_, at) : at + 2;
        if (end > regex_.size()) return false;
        atom = regex_.substr(at, end - at);
        at = end;
      } else if (std::string_view("^$.()|*+?{}").find(c) != std::string_view::npos) {
        return false;
      } else {
        ++at;
      }
      const char accepted = character_of(atom);
      if (accepted == '\0') return false;
      if (!add(accepted, at)) return false;
    }
    return true;
  }

  const std::string& text() const { return text_; }

 private:
  // The character that an atom accepts, or kOther; NUL: it may accept a special one, or several.
  static char character_of(const std::string& atom) {
    if (atom.size() == 1) return atom.front();
    const bool punctuation = atom.size() == 2 && atom[0] == '\\' && !is_word(atom[1]);
    if (punctuation) return atom[1];
    if (atom[0] == '\\' && std::string_view("dws").find(atom[1]) == std::string_view::npos)
      return '\0';
    return accepts_special(atom) ? '\0' : kOther;
  }
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  // Adds a character with the quantifier at `at`. Optional ones are read as absent and as present.
  bool add(char c, std::size_t& at) {
    const char quantifier = at < regex_.size() ? regex_[at] : '\0';
    if (quantifier == '{') {
      const bool optional = regex_.compare(at, 2, "{0") == 0;
      at = regex_.find('}', at);
      if (at == std::string::npos || c != kOther) return false;
      ++at;
      if (optional) return add_optional(c);
      text_ += c;
      return true;
    }
    if (quantifier != '*' && quantifier != '+' && quantifier != '?') {
      text_ += c;
      return true;
    }
    ++at;
    // The last slash may be there or not; neither makes an empty segment.
    if (c == '/' && quantifier == '?' && at == regex_.size() && !text_.ends_with('/')) {
      text_ += c;
      return true;
    }
    if (c != kOther) return false;
    if (quantifier == '+') {
      text_ += c;
      return true;
    }
    return add_optional(c);
  }

  // A class that may be absent must not stand where its absence could join others.
  bool add_optional(char c) {
    if (text_.ends_with('/') || text_.ends_with('.') || text_.ends_with('%')) return false;
    text_ += c;
    return true;
  }

  const std::string regex_;
  std::string text_;
};

}  // namespace

bool may_accept_other_forms(const std::string& regex) {
  static const RE2 kOtherForms(model::kOtherPathForms, quiet());
  // A literal without special characters accepts its own text in any form.
  if (regex.find_first_of("()[]|*+?{}^$.") == std::string::npos) return false;
  Shape shape(regex);
  if (!shape.read()) return true;
  // A class behind '%' may be the digits of an escape.
  const auto& text = shape.text();
  for (std::size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 1))
    if (text.find(kOther, at) < at + 3) return true;
  return RE2::FullMatch(text, kOtherForms);
}

PathSet::PathSet(const std::string& regex)
    : regex_(std::make_shared<const RE2>("^(?:" + regex + ")$", quiet())) {
  if (regex_->ok()) bounded_ = regex_->PossibleMatchRange(&least_, &most_, kMaxBound);
}

bool PathSet::may_overlap(const PathSet& other) const {
  if (!regex_->ok() || !other.regex_->ok()) return true;
  if (only() != nullptr) return RE2::FullMatch(*only(), *other.regex_);
  if (other.only() != nullptr) return RE2::FullMatch(*other.only(), *regex_);
  if (!bounded_ || !other.bounded_) return true;
  return least_ <= other.most_ && other.least_ <= most_;
}

}  // namespace osm::inline v1::migrate
