// The threads of osm-injector, watched for /health/alive.
#pragma once

#include <string>
#include <vector>

#include "admission_queue.hpp"
#include "osm/runtime/runtime.hpp"
#include "watched_threads.hpp"

namespace osm::injector {

// Each admission waits for its Secret to be written.
inline constexpr unsigned kAdmissionThreads = 16;
// Two for the upkeep, one each for the replicas' board, the root rotation and the last MeshConfig.
inline constexpr unsigned kUpkeepThreads = 5;

class InjectorThreads {
 public:
  // Lifetime: what `runtime` borrows outlives the threads.
  explicit InjectorThreads(const Runtime& runtime)
      : watched_("certificates and credentials", runtime),
        admissions_(kAdmissionThreads, runtime),
        reading_("objects of the mesh", runtime.executor, runtime.clock),
        upkeep_(kUpkeepThreads, "webhook configuration, Lease and roots", runtime.clock) {}

  // Certificates and credentials use this one.
  const Runtime& runtime() const { return watched_.runtime(); }
  // A store of objects uses this one.
  Runtime reading() { return watched_.with(reading_, runtime().blocking); }
  // Parts that wait for the API server or for CAs use this one.
  Runtime waiting() { return watched_.with(runtime().executor, upkeep_.executor()); }
  // As waiting(), for parts that wait on `executor`.
  Runtime upkeep() { return watched_.with(upkeep_.executor(), upkeep_.executor()); }
  Executor& admissions() { return admissions_; }

  // As Daemon::hanging().
  std::vector<std::string> hanging() const {
    return daemon::hanging(
        {&admissions_.watched(), &reading_, &upkeep_.executor(), &watched_.blocking()});
  }

 private:
  const daemon::WatchedRuntime watched_;
  daemon::AdmissionQueue admissions_;
  WatchedExecutor reading_;
  daemon::WatchedThreads upkeep_;
};

}  // namespace osm::injector
