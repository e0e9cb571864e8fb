#include "translate/matchers.hpp"

namespace osm::inline v1::translate {
namespace {

constexpr std::string_view kMeta = R"(\.+*?()[]{}|^$)";
constexpr std::string_view kEscapable = "./-";  // escapes that occur in paths

// Sets a prefix or a regex.
template <class Matcher>
void set_inexact(Matcher& matcher, const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::kPrefix) return matcher.set_prefix(pattern.text);
  matcher.mutable_safe_regex()->set_regex(pattern.text);
}

}  // namespace

PathMatch PathMatch::of(const RoutePolicy& policy) {
  return {policy.path_regex, policy.methods, policy.headers};
}

std::vector<PathMatch> PathMatch::by_method() const {
  if (methods.empty()) return {*this};
  std::vector<PathMatch> out;
  for (const std::string& method : methods) out.push_back({path, {method}, headers});
  return out;
}

Pattern pattern_of(std::string_view regex) {
  const Pattern as_written{Pattern::Kind::kRegex, std::string(regex)};
  std::string_view rest = regex;
  const bool open_ended = rest.ends_with(".*") && !rest.ends_with("\\.*");
  if (open_ended) rest.remove_suffix(2);

  std::string literal;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '\\' && i + 1 < rest.size() && kEscapable.find(rest[i + 1]) != kEscapable.npos) {
      literal += rest[++i];
    } else if (kMeta.find(rest[i]) != kMeta.npos) {
      return as_written;
    } else {
      literal += rest[i];
    }
  }
  if (!open_ended) return {Pattern::Kind::kExact, literal};
  if (literal.empty()) return {Pattern::Kind::kAny, ""};
  return {Pattern::Kind::kPrefix, literal};
}

void set_string(envoy::type::matcher::v3::StringMatcher& matcher, const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::kAny)
    return set_string(matcher, {Pattern::Kind::kRegex, ".*"});
  if (pattern.kind == Pattern::Kind::kExact) return matcher.set_exact(pattern.text);
  set_inexact(matcher, pattern);
}

void set_path(envoy::config::route::v3::RouteMatch& match, const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::kAny) return set_path(match, {Pattern::Kind::kPrefix, "/"});
  if (pattern.kind == Pattern::Kind::kExact) return match.set_path(pattern.text);
  set_inexact(match, pattern);
}

envoy::config::route::v3::HeaderMatcher header_matcher(const std::string& name,
                                                       const Pattern& pattern) {
  envoy::config::route::v3::HeaderMatcher matcher;
  matcher.set_name(name == "host" ? ":authority" : name);
  if (pattern.kind == Pattern::Kind::kAny)
    matcher.set_present_match(true);
  else
    set_string(*matcher.mutable_string_match(), pattern);
  return matcher;
}

envoy::config::route::v3::HeaderMatcher method_matcher(const std::string& method) {
  return header_matcher(":method", {Pattern::Kind::kExact, method});
}

void set_match(envoy::config::route::v3::RouteMatch& out, const PathMatch& match) {
  set_path(out, pattern_of(match.path));
  for (const std::string& method : match.methods) *out.add_headers() = method_matcher(method);
  for (const auto& [name, regex] : match.headers)
    *out.add_headers() = header_matcher(name, pattern_of(regex));
}

}  // namespace osm::inline v1::translate
