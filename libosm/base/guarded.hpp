// Calls of foreign code, which may throw.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "osm/result.hpp"

namespace osm::inline v1 {

// Result: the result of `call`, whatever it is: a failure that `call` returns is one inside.
// Failure: kInternal, with the text of what it threw.
template <class Call>
auto guarded(const Call& call) -> Result<decltype(call())> {
  std::string thrown = "an exception that is no std::exception";
  try {
    return call();
  } catch (const std::exception& error) {
    thrown = error.what();
    if (thrown.empty()) thrown = "an exception without a text";
  } catch (...) {  // nothing to learn from it
  }
  return Error{ErrorCode::kInternal, std::move(thrown)};
}

}  // namespace osm::inline v1
