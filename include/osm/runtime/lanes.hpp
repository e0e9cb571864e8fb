// Threads for work that waits: for a disk, a name server, a CA or an API server. Each part has a
// lane, a bounded share of one pool:
//
//   osm::net::Lane reviews(runtime.lanes(), {.name = "reviews", .bound = 4, .watched = true});
//
// There is a thread for each task that its lane lets run, so no lane waits for another one. A
// thread is started when a task needs it, and ends after ten seconds without work.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::net {

// The threads of any number of lanes, and one for their timers. There are never more than the
// largest sum of bounds that there was while they rest.
class OSM_API Lanes {
 public:
  static constexpr std::chrono::seconds kRest{10};

  // `rest`: time without work after which a thread ends. `log`: is told when no thread can be
  // started; null: nobody is. Lifetime: `clock` and `log` outlive it. Blocking: no.
  explicit Lanes(const Clock& clock, std::chrono::milliseconds rest = kRest,
                 LogSink* log = nullptr);
  // After every lane. Blocking: until the idle threads have ended.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Watched lanes that hang, in words: a task has run for two minutes without a sign of progress,
  // or waits while none has begun for so long. Each value that a task records on the metrics of an
  // OwnRuntime is such a sign. Thread: any. Blocking: no.
  std::vector<std::string> hanging() const;

 private:
  friend class Lane;
  class Pool;
  std::unique_ptr<Pool> pool_;
};

// The purpose of a lane, and the number of its tasks at once.
struct LaneOptions {
  std::string name;                // the work of its tasks, for Lanes::hanging()
  unsigned bound = 1;              // number of tasks that run at once, at least 1
  bool watched = false;            // Lanes::hanging() names it
  MetricsSink* metrics = nullptr;  // receives osm_queue_length{queue=name}; null: nobody does
};

// A bounded share of the threads, as an executor.
class OSM_API Lane final : public Executor {
 public:
  // Lifetime: `lanes` and the metrics outlive it. Blocking: no.
  Lane(Lanes& lanes, const LaneOptions& options);
  ~Lane() override;  // join()
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void post(std::function<void()> task) override;
  Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) override;
  bool running_in_this_thread() const override;

  // Runs remaining tasks, for a second at most, and no later ones. Idempotent.
  // Thread: any but one that runs a task of this lane. Blocking: until the running tasks have
  // returned.
  void join();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace osm::inline v1::net
