// SMI matches as Envoy matchers. A regex becomes "any", a literal or a prefix if that is
// equivalent: those cost less per request and cannot fail.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "envoy/config/route/v3/route_components.pb.h"
#include "envoy/type/matcher/v3/string.pb.h"
#include "osm/values/traffic_policy.hpp"

namespace osm::inline v1::translate {

struct Pattern {
  enum class Kind { kAny, kExact, kPrefix, kRegex };
  Kind kind = Kind::kAny;
  std::string text;  // the literal, or the original regex

  friend bool operator==(const Pattern&, const Pattern&) = default;
};

// A RoutePolicy without its names, which no byte shows.
struct PathMatch {
  std::string path = ".*";                     // RE2, full match of the path without its query
  std::vector<std::string> methods;            // empty: any
  std::map<std::string, std::string> headers;  // name (lower case) → RE2, full match

  static PathMatch of(const RoutePolicy& policy);
  // A match for each of the methods: routes cannot match alternatives.
  std::vector<PathMatch> by_method() const;

  friend auto operator<=>(const PathMatch&, const PathMatch&) = default;
};

// Simplest equivalent of a regex that must match in full (RE2).
Pattern pattern_of(std::string_view regex);

void set_string(envoy::type::matcher::v3::StringMatcher& matcher, const Pattern& pattern);
void set_path(envoy::config::route::v3::RouteMatch& match, const Pattern& pattern);
// Precondition: at most one method.
void set_match(envoy::config::route::v3::RouteMatch& out, const PathMatch& match);

// Matcher for a header. SMI's `host` is the request's authority. A header that may have any value
// must still be present.
envoy::config::route::v3::HeaderMatcher header_matcher(const std::string& name,
                                                       const Pattern& pattern);
envoy::config::route::v3::HeaderMatcher method_matcher(const std::string& method);

}  // namespace osm::inline v1::translate
