// Back-off for all requests to Vault: after a failure no request is sent for a while, so that due
// certificates do not overload a Vault in trouble.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/backoff.hpp"
#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::vault {

// All calls: Thread: any. Blocking: no.
class Gate {
 public:
  // Lifetime: both outlive the gate.
  Gate(const Clock& clock, Rng& rng) : clock_(clock), rng_(rng) {}

  // Ok: send a request, then call passed() or failed(). Failure: the last one; the gate is shut.
  // When its time is over, one caller may send; the others fail until its result is known.
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

  // Result: true if it was shut.
  bool passed() {
    const std::lock_guard lock(mutex_);
    failures_ = 0;
    probing_ = false;
    return std::exchange(error_, std::nullopt).has_value();
  }

  // Result: true if it was open.
  bool failed(const Error& error) {
    const std::lock_guard lock(mutex_);
    const bool was_open = !error_;
    // Several simultaneous failures count once.
    if (was_open || std::exchange(probing_, false))
      retry_at_ = clock_.steady_now() + kBackoff.delay(++failures_, rng_);
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
  static constexpr Backoff kBackoff{std::chrono::seconds(1), std::chrono::minutes(1)};
  static constexpr std::chrono::minutes kProbe{1};

  const Clock& clock_;
  Rng& rng_;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  SteadyTime retry_at_{};
  unsigned failures_ = 0;
  bool probing_ = false;  // a caller that passed the shut gate sends a request
};

}  // namespace osm::inline v1::vault
