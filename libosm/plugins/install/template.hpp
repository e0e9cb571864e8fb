// The part of Helm's template language that charts/osm uses: values of the chart, `if` with `else`,
// the functions default, eq, fail, gt, int, nindent, not, or, toJson and toYaml, and
// .Capabilities.APIVersions.Has.
//
// The output equals Helm's, or there is an error: other functions, and values that are not set, are
// refused.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// The text of the template `name`, expanded. `root` has the members Values, Release, Chart
// and Capabilities, whose APIVersions is a list of texts.
// Failure: kInvalidArgument: the message of a `fail`; kInvalidSyntax: a template that Helm might
// read and this does not, with its name and line.
Result<std::string> expand_template(std::string_view name, std::string_view text,
                                    const boost::json::object& root);

}  // namespace osm::inline v1::kubernetes
