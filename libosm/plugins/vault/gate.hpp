// Whether Vault is asked at all: after a failure not before a while has passed, so that one that is
// in trouble is not asked by every certificate that is due.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::vault {

// All calls: Thread: any. Blocking: no.
class Gate {
 public:
  // Both outlive the gate.
  Gate(const Clock& clock, Rng& rng) : clock_(clock), rng_(rng) {}

  // Ok: ask, and say with passed() or failed() what came of it. Failure: the last one; nobody asks
  // before its time. When that has come, one caller may, and the others go on failing until it is
  // known what it met.
  Status enter() {
    const std::lock_guard lock(mutex_);
    if (!error_) return {};
    const auto left = retry_at_ - clock_.steady_now();
    if (left <= std::chrono::nanoseconds::zero()) {
      retry_at_ = clock_.steady_now() + kProbe;
      probing_ = true;
      return {};
    }
    Error error = *error_;
    error.message += " (Vault is asked again in " +
                     std::to_string(std::chrono::ceil<std::chrono::seconds>(left).count()) + " s)";
    return error;
  }

  // Result: whether it was shut.
  bool passed() {
    const std::lock_guard lock(mutex_);
    failures_ = 0;
    probing_ = false;
    return std::exchange(error_, std::nullopt).has_value();
  }

  // Result: whether it was open.
  bool failed(const Error& error) {
    const std::lock_guard lock(mutex_);
    const bool was_open = !error_;
    // Of several that fail at once, one counts.
    if (was_open || std::exchange(probing_, false)) {
      const auto whole = std::min(kLongest, kFirst * (1 << std::min(failures_++, 10U)));
      const auto half = static_cast<std::uint64_t>(whole.count() / 2);
      retry_at_ = clock_.steady_now() + whole -
                  std::chrono::milliseconds(static_cast<std::int64_t>(rng_.next() % (half + 1)));
    }
    error_ = error;
    return was_open;
  }

  // Ok while it is open.
  Status state() const {
    const std::lock_guard lock(mutex_);
    if (error_) return *error_;
    return {};
  }

 private:
  static constexpr std::chrono::milliseconds kFirst = std::chrono::seconds(1);
  static constexpr std::chrono::milliseconds kLongest = std::chrono::minutes(1);
  static constexpr std::chrono::milliseconds kProbe = std::chrono::minutes(1);

  const Clock& clock_;
  Rng& rng_;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  SteadyTime retry_at_{};
  unsigned failures_ = 0;
  bool probing_ = false;  // somebody asks who was let through a shut gate
};

}  // namespace osm::inline v1::vault
