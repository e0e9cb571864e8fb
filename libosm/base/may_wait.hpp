// Refuses to wait for an executor on its own thread, which would never end if it has only one.
// Header only, so that every library of this project has it beside a shared libosm.
#pragma once

#include <string>
#include <string_view>

#include "base/check.hpp"
#include "osm/executor.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// Both: `function` is the public function that would wait, as in "ControlPlane::shutdown".
// Failure: kInvalidArgument on a thread of `executor`.
inline Status check_may_wait(const Executor& executor, std::string_view function) {
  if (!executor.running_in_this_thread()) return {};
  return Error{ErrorCode::kInvalidArgument,
               std::string(function) +
                   ": was called on a thread of the executor that it waits for; call it on another "
                   "thread, such as one of Runtime::blocking"};
}

// For functions that cannot fail: ends the process on a thread of `executor`.
inline void require_may_wait(const Executor& executor, std::string_view function) {
  if (const Status may = check_may_wait(executor, function); !may.ok())
    process_must_end(may.error().message.c_str());
}

}  // namespace osm::inline v1
