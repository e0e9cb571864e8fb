// SMI matches as Envoy matchers. A regex that needs none becomes "any", a literal or a prefix:
// those cost nothing per request and cannot go wrong.
#pragma once

#include <string>
#include <string_view>

#include "envoy/config/route/v3/route_components.pb.h"
#include "envoy/type/matcher/v3/string.pb.h"

namespace osm::inline v1::translate {

struct Pattern {
  enum class Kind { kAny, kExact, kPrefix, kRegex };
  Kind kind = Kind::kAny;
  std::string text;  // the literal, or the regex as it was written

  friend bool operator==(const Pattern&, const Pattern&) = default;
};

// What a regex that must match in full (RE2) really asks for.
Pattern pattern_of(std::string_view regex);

void set_string(envoy::type::matcher::v3::StringMatcher& matcher, const Pattern& pattern);
void set_path(envoy::config::route::v3::RouteMatch& match, const Pattern& pattern);

// `host`, as SMI spells it, is the request's authority. A header that may have any value must still
// be there.
envoy::config::route::v3::HeaderMatcher header_matcher(const std::string& name,
                                                       const Pattern& pattern);
envoy::config::route::v3::HeaderMatcher method_matcher(const std::string& method);

}  // namespace osm::inline v1::translate
