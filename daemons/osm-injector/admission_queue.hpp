// Threads that answer admissions, with the metric of those that wait for one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "base/shared_metrics.hpp"
#include "osm/metrics.hpp"
#include "osm/runtime/runtime.hpp"
#include "watched_threads.hpp"

namespace osm::daemon {

// Sets osm_queue_length{queue="admissions"}. Lifetime: what `runtime` borrows outlives it.
class AdmissionQueue final : public Executor {
 public:
  AdmissionQueue(unsigned threads, const Runtime& runtime)
      : metrics_(runtime.metrics), threads_(threads, "admissions", runtime.clock) {
    count(0);
  }

  const WatchedExecutor& watched() const { return threads_.executor(); }

  void post(std::function<void()> task) override {
    count(1);
    threads_.executor().post([this, task = std::move(task)] {
      count(-1);
      task();
    });
  }
  Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) override {
    return threads_.executor().post_after(delay, std::move(task));
  }
  bool running_in_this_thread() const override {
    return threads_.executor().running_in_this_thread();
  }

 private:
  void count(int change) {
    const std::lock_guard lock(mutex_);  // two values may not change places on their way
    waiting_ += change;
    metrics_.set(kQueueLength, {{"queue", "admissions"}}, waiting_);
  }

  MetricsSink& metrics_;
  std::mutex mutex_;
  int waiting_ = 0;
  WatchedThreads threads_;
};

}  // namespace osm::daemon
