#include "osm/host/start.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "base/backoff.hpp"

namespace osm::inline v1::host {
namespace {

// The longest is also the most that a program is late when the other side is there.
constexpr Backoff kAttempts{std::chrono::seconds(1), std::chrono::seconds(10)};

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

}  // namespace

bool Start::pause(const std::string& what, const Error& error, unsigned failures) {
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
  if (other && runtime_.log.enabled(LogLevel::kWarning)) {
    std::vector<LogField> fields{{"for", what},
                                 {"code", std::string(error_code_text(error.code))},
                                 {"cause", error.message}};
    if (http_address_) fields.push_back({"http_address", http_address_->str()});
    runtime_.log.write(LogLevel::kWarning, "the start waits; it is tried again", fields);
  }
  return !wait_(kAttempts.delay(failures, runtime_.rng));
}

void Start::waits_no_more() {
  const std::lock_guard lock(mutex_);
  waits_for_.clear();
}

std::vector<std::string> Start::missing() const {
  const std::lock_guard lock(mutex_);
  if (waits_for_.empty()) return {"its start"};
  return {waits_for_.front().path + ": " + waits_for_.front().cause};
}

std::vector<Problem> Start::problems() const {
  const std::lock_guard lock(mutex_);
  return waits_for_;
}

std::string host_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return host.data();
}

std::string replica_name(Rng& rng) { return fmt::format("{}-{:016x}", host_name(), rng.next()); }

Subscription follow_log_level(MeshSpec& spec, net::JsonLog& log, LogLevel otherwise) {
  const auto follow = [&spec, &log, otherwise] {
    log.set_least(spec.get_mesh_config().log_level.value_or(otherwise));
  };
  auto handle = spec.subscribe([follow](const auto&) { follow(); });
  follow();
  return handle;
}

}  // namespace osm::inline v1::host
