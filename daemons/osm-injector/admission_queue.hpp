// Threads that answer admissions, with the metric of those that wait for one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "osm/metrics.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::daemon {

// Sets osm_queue_length{queue="admissions"}. Lifetime: `metrics` outlives it.
class AdmissionQueue final : public Executor {
 public:
  AdmissionQueue(unsigned threads, MetricsSink& metrics) : metrics_(metrics), threads_(threads) {
    count(0);
  }

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
    metrics_.set("osm_queue_length", {{"queue", "admissions"}}, waiting_);
  }

  MetricsSink& metrics_;
  std::mutex mutex_;
  int waiting_ = 0;
  mutable net::Threads threads_;
};

}  // namespace osm::daemon
