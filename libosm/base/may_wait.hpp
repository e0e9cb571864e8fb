// Refuses to wait for an executor on its own thread, which would never end if it has only one.
#pragma once

#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// Both: `function` is the public function that would wait, as in "ControlPlane::shutdown".
// Failure: kInvalidArgument on a thread of `executor`.
OSM_API Status check_may_wait(const Executor& executor, std::string_view function);
// For functions that cannot fail: ends the process on a thread of `executor`.
OSM_API void require_may_wait(const Executor& executor, std::string_view function);

}  // namespace osm::inline v1
