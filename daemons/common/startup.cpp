#include "startup.hpp"

#include "base/backoff.hpp"

namespace osm::daemon {
namespace {

// The longest is also the most that a daemon is late when the other side is there.
constexpr Backoff kAttempts{std::chrono::seconds(1), std::chrono::seconds(10)};

}  // namespace

bool may_pass(const Error& error) {
  switch (error.code) {
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kNotReady:
    case ErrorCode::kConflict:
    case ErrorCode::kPermissionDenied:  // a Role, or a policy of Vault, may come later
      return true;
    default:
      return false;
  }
}

bool Startup::pause(const std::string& what, const Error& error, unsigned failures) {
  if (!may_pass(error)) return false;
  const Problem problem{
      .code = error.code, .object = {}, .path = what, .field = {}, .cause = error.message};
  bool other = false;
  {
    const std::lock_guard lock(mutex_);
    other = waits_for_.empty() || waits_for_.front().path != what ||
            waits_for_.front().cause != error.message;
    waits_for_ = {problem};
  }
  if (other)
    runtime_.log.warning("the start waits; it is tried again",
                         {{"for", what},
                          {"code", std::string(error_code_text(error.code))},
                          {"cause", error.message},
                          {"http_address", http_address_.str()}});
  return !signal_.wait_for(kAttempts.delay(failures, runtime_.rng));
}

void Startup::waits_no_more() {
  const std::lock_guard lock(mutex_);
  waits_for_.clear();
}

std::vector<std::string> Startup::missing() const {
  const std::lock_guard lock(mutex_);
  if (waits_for_.empty()) return {"its start"};
  return {waits_for_.front().path + ": " + waits_for_.front().cause};
}

std::vector<Problem> Startup::problems() const {
  const std::lock_guard lock(mutex_);
  return waits_for_;
}

}  // namespace osm::daemon
