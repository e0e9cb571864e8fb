// Forms of paths in HTTP requests.
#pragma once

namespace osm::inline v1::model {

// RE2 for paths that are not in normal form: an empty, "." or ".." segment, a backslash, or an
// escaped slash, backslash or unreserved character. The workload may read such a path as another
// one.
inline constexpr const char* kOtherPathForms =
    R"(.*(?://|/\.\.?(?:/|$)|\\|%2[D-Fd-f]|%3[0-9]|%4[1-9A-Fa-f]|%5[0-9ACFacf]|%6[1-9A-Fa-f]|%7[0-9AEae]).*)";

}  // namespace osm::inline v1::model
