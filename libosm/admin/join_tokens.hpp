// Tokens with which machines join the mesh: each for one machine, for one use, for a short time.
// The record that the replicas share has only hashes of their secrets.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

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

// A token as it is recorded.
struct RecordedToken {
  std::string id;
  std::string hash;  // of the secret
  WorkloadName machine;
  std::int64_t expires = 0;  // seconds since 1970
};

// Callers without a token cannot keep others from joining: a question costs a look into a copy of
// the record. The record is read 20 times a second at most, whoever asks.
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
  // or expired); kNotReady (not in the copy, and too many ask to read the record again now: ask
  // again); the record's. Thread, blocking: as above.
  Result<WorkloadName> find(std::string_view id, std::string_view secret);

  // As find(), and the token ends. Of several callers, on all replicas, one succeeds.
  Result<WorkloadName> take(std::string_view id, std::string_view secret);

 private:
  using Tokens = std::shared_ptr<const std::vector<RecordedToken>>;
  struct Known {
    Tokens tokens;
    bool read_now;  // since the caller asked
  };

  Result<Known> read_tokens();

  TextRecord& record_;
  const Clock& clock_;
  std::mutex editing_;  // held while the record is changed; before mutex_
  std::mutex mutex_;
  RateLimit reads_{clock_, 20, std::chrono::milliseconds(50)};
  Tokens copy_;  // null until the record was read
};

}  // namespace osm::inline v1::admin
