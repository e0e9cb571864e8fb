// Bounds on log lines that a peer can cause as often as it likes.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "base/rate_limit.hpp"

namespace osm::inline v1 {

// Ten lines at once, then one every ten seconds. Not synchronized.
class LogLimit {
 public:
  static constexpr double kBurst = 10;
  static constexpr std::chrono::seconds kPeriod{10};

  explicit LogLimit(const Clock& clock) : rate_(clock, kBurst, kPeriod) {}

  // Result: the number of lines left out since the last one; nullopt: leave this one out, too.
  std::optional<std::size_t> admit() {
    if (rate_.take()) return std::exchange(left_out_, 0);
    ++left_out_;
    return std::nullopt;
  }

 private:
  RateLimit rate_;
  std::size_t left_out_ = 0;
};

// A LogLimit for each key, such as a proxy or a namespace, so that the lines of one hide none of
// the others. Keys are forgotten when their limit is as new. Beyond kMaxKeys, new keys share a
// limit. Not synchronized.
template <class Key>
class LogLimits {
 public:
  static constexpr std::size_t kMaxKeys = 65'536;

  explicit LogLimits(const Clock& clock) : clock_(clock), rest_(clock) {}

  // Result: as LogLimit::admit(), of this key.
  std::optional<std::size_t> admit(const Key& key) {
    const SteadyTime now = clock_.steady_now();
    if (now - forgot_ >= kFull) {
      std::erase_if(limits_, [&](const auto& one) { return now - one.second.used >= kFull; });
      forgot_ = now;
    }
    auto at = limits_.find(key);
    if (at == limits_.end()) {
      if (limits_.size() >= kMaxKeys) return rest_.admit();
      at = limits_.emplace(key, Used{LogLimit(clock_), now}).first;
    }
    at->second.used = now;
    return at->second.limit.admit();
  }

 private:
  struct Used {
    LogLimit limit;
    SteadyTime used;
  };
  // Time in which an unused limit is full again.
  static constexpr auto kFull = LogLimit::kPeriod * static_cast<int>(LogLimit::kBurst);

  const Clock& clock_;
  std::map<Key, Used> limits_;
  LogLimit rest_;
  SteadyTime forgot_{};
};

}  // namespace osm::inline v1
