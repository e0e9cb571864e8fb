#include "base/may_wait.hpp"

#include <string>

#include "base/check.hpp"

namespace osm::inline v1 {

Status check_may_wait(const Executor& executor, std::string_view function) {
  if (!executor.running_in_this_thread()) return {};
  return Error{ErrorCode::kInvalidArgument,
               std::string(function) +
                   ": was called on a thread of the executor that it waits for; call it on another "
                   "thread, such as one of Runtime::blocking"};
}

void require_may_wait(const Executor& executor, std::string_view function) {
  if (const Status may = check_may_wait(executor, function); !may.ok())
    process_must_end(may.error().message.c_str());
}

}  // namespace osm::inline v1
