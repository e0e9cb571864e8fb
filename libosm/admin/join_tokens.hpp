// Tokens with which machines join the mesh: each for one machine, for one use, for a short time.
// The record that the replicas share has only hashes of their secrets.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "base/rate_limit.hpp"
#include "osm/clock.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/runtime/text_record.hpp"

namespace osm::inline v1::admin {

struct JoinToken {
  std::string id;
  std::string secret;
  WallTime expires;
};

class JoinTokens {
 public:
  static constexpr std::chrono::seconds kShortest{60};
  static constexpr std::chrono::seconds kLongest{24 * 3600};

  // Lifetime: both outlive the value.
  JoinTokens(TextRecord& record, const Clock& clock) : record_(record), clock_(clock) {}

  // Result: a token for `machine`, which replaces an earlier one. Failure: kInvalidArgument
  // (`life`), kTooLarge (too many tokens wait); the record's. Thread: any but an event loop's.
  // Blocking: until it is recorded.
  Result<JoinToken> make(const WorkloadName& machine, std::chrono::seconds life);

  // Result: the machine of the token, which stays valid. Failure: kPermissionDenied (unknown, used
  // or expired); kUnavailable (too many questions a second); the record's. Thread, blocking: as
  // above.
  Result<WorkloadName> find(std::string_view id, std::string_view secret);

  // As find(), and the token ends. Of several callers, on all replicas, one succeeds.
  Result<WorkloadName> take(std::string_view id, std::string_view secret);

 private:
  Status may_ask();

  TextRecord& record_;
  const Clock& clock_;
  std::mutex mutex_;
  RateLimit questions_{clock_, 20, std::chrono::milliseconds(50)};
};

}  // namespace osm::inline v1::admin
