// The start of a daemon, which waits for an API server or a CA that is late. Health is served
// meanwhile, so that the daemon is alive, not ready, and says what it waits for.
#pragma once

#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "osm/host/health.hpp"
#include "osm/net/address.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "process.hpp"

namespace osm::daemon {

// A record that a start waits for, beside host::kAuthority.
inline constexpr const char* kRotationRecord = "record of root rotations";

// True for a failure that may end without a change of this daemon: the other side is away, or does
// not permit it yet.
bool may_pass(const Error& error);

class Startup final : public host::Monitored {
 public:
  // Lifetime: both outlive the start.
  Startup(OwnRuntime& runtime, EndSignal& signal) : runtime_(runtime), signal_(signal) {}
  Startup(const Startup&) = delete;

  // Calls `attempt`, which returns a Result, until it succeeds. `what`: what the start waits for.
  // Failure: one that does not pass by itself; the last one when a signal has come.
  // Thread: the main one. Blocking: until then.
  template <class Attempt>
  std::invoke_result_t<Attempt> wait_for(const std::string& what, const Attempt& attempt) {
    for (unsigned failures = 1;; ++failures) {
      auto done = attempt();
      if (done.ok() || !pause(what, done.error(), failures)) {
        waits_no_more();
        return done;
      }
    }
  }

  // The address that health is served at.
  const net::Address& http_address() const { return http_address_; }
  void set_http_address(net::Address address) { http_address_ = std::move(address); }

  // The reason why the daemon is not ready yet, and the same as a problem.
  std::vector<std::string> missing() const override;
  std::vector<Problem> problems() const override;

 private:
  // Result: false if there is no other attempt.
  bool pause(const std::string& what, const Error& error, unsigned failures);
  void waits_no_more();

  OwnRuntime& runtime_;
  EndSignal& signal_;
  net::Address http_address_;
  mutable std::mutex mutex_;
  std::vector<Problem> waits_for_;  // guarded by mutex_; one at most
};

}  // namespace osm::daemon
