// The start of a program that runs a mesh: it waits for an API server or a CA that is late. Health
// is served meanwhile, so that the program is alive, not ready, and says what it waits for.
//
//   host::Start start(runtime, [&](auto pause) { return signals.wait_for(pause); });
//   auto health = host::Health::start({.address = address, .runtime = runtime, .start = start});
//   auto board = start.wait_for(host::kRotationRecord, backend.join);
//
// And the name of a replica, and the level of its log.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/host/health.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/net/address.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::host {

// A record that a start waits for, beside kAuthority.
inline constexpr const char* kRotationRecord = "record of root rotations";

// The start of a program, from Health::start() to Health::follow().
class OSM_API Start final : public Monitored {
 public:
  // Waits for the time. Result: true, at once, if the program is to end. Thread: that of
  // wait_for().
  using Wait = std::function<bool(std::chrono::nanoseconds time)>;

  // Lifetime: `runtime` outlives the start.
  Start(OwnRuntime& runtime, Wait wait) : runtime_(runtime), wait_(std::move(wait)) {}
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  // Calls `attempt`, which returns a Result, until it succeeds, after pauses of up to 10 seconds.
  // `what`: the server or record that the start waits for. Failures that may pass without a change
  // of this program are repeated: the other side is away, or does not permit it yet.
  // Failure: one that does not pass by itself; the last one when the program is to end.
  // Thread: one at a time. Blocking: until then.
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

  // The address that health is served at. Thread: that of wait_for().
  const std::optional<net::Address>& http_address() const { return http_address_; }
  // Sets it, before wait_for(): the log tells it while the start waits. Thread: that of wait_for().
  void set_http_address(net::Address address) { http_address_ = std::move(address); }

  // The reason why the program is not ready yet, and the same as a problem.
  std::vector<std::string> missing() const override;
  std::vector<Problem> problems() const override;

 private:
  // Result: false if there is no other attempt.
  bool pause(const std::string& what, const Error& error, unsigned failures);
  void waits_no_more();

  OwnRuntime& runtime_;
  const Wait wait_;
  std::optional<net::Address> http_address_;
  mutable std::mutex mutex_;
  std::vector<Problem> waits_for_;  // guarded by mutex_; one at most
};

// This host's name, which in a pod is the pod's. Empty: unknown. Thread: any. Blocking: no.
OSM_API std::string host_name();

// The name by which the replicas of a program know each other: Backend::replica. Result: a name
// that no other replica has, nor this one before a restart: the host's name, which is the pod's,
// and a random number. Thread: any. Blocking: no.
OSM_API std::string replica_name(Rng& rng);

// Logs from the level on that MeshConfig says, else from `otherwise` on. Result: the handle of the
// subscription. Lifetime: both outlive the handle. Thread: any. Blocking: no.
OSM_API Subscription follow_log_level(MeshSpec& spec, net::JsonLog& log, LogLevel otherwise);

}  // namespace osm::inline v1::host
