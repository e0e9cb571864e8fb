// SMI matches as Envoy matchers. A regex becomes "any", a literal or a prefix if that is
// equivalent: those cost less per request and cannot fail.
#pragma once

#include <string>
#include <string_view>

#include "envoy/config/route/v3/route_components.pb.h"
#include "envoy/type/matcher/v3/string.pb.h"

namespace osm::inline v1::translate {

struct Pattern {
  enum class Kind { kAny, kExact, kPrefix, kRegex };
  Kind kind = Kind::kAny;
  std::string text;  // the literal, or the original regex

  friend bool operator==(const Pattern&, const Pattern&) = default;
};

// Simplest equivalent of a regex that must match in full (RE2).
Pattern pattern_of(std::string_view regex);

void set_string(envoy::type::matcher::v3::StringMatcher& matcher, const Pattern& pattern);
void set_path(envoy::config::route::v3::RouteMatch& match, const Pattern& pattern);

// Matcher for a header. SMI's `host` is the request's authority. A header that may have any value
// must still be present.
envoy::config::route::v3::HeaderMatcher header_matcher(const std::string& name,
                                                       const Pattern& pattern);
envoy::config::route::v3::HeaderMatcher method_matcher(const std::string& method);

}  // namespace osm::inline v1::translate
