#include "osm/runtime/lanes.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/may_wait.hpp"
#include "base/shared_metrics.hpp"
#include "base/watched_executor.hpp"
#include "osm/detail/call_gate.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::inline v1::net {
namespace {

constexpr std::chrono::seconds kLastTasks{1};
constexpr std::chrono::seconds kTryAgain{1};  // to start a thread that could not be started

}  // namespace

class Lanes::Pool {
 public:
  // The tasks of a lane. Guarded by the pool's mutex.
  struct Queue {
    explicit Queue(unsigned b) : bound(std::max(1U, b)) {}

    const unsigned bound;
    std::deque<std::function<void()>> waiting;
    unsigned running = 0;  // threads that run its tasks, or are about to
    bool ended = false;    // no task starts any more
    bool gone = false;     // nor is one kept
    std::condition_variable idle;
  };

  using QueuePtr = std::shared_ptr<Queue>;

  Pool(const Clock& c, std::chrono::milliseconds rest, LogSink* log)
      : clock(c), rest_(rest), log_(log) {
    ::pthread_sigmask(SIG_BLOCK, nullptr, &signals_);
  }

  ~Pool() {
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      for (Worker* worker : idle_) worker->woken.notify_one();
      none_.wait(lock, [this] { return workers_.empty(); });
    }
    if (ended_.joinable()) ended_.join();
  }

  void post(const QueuePtr& queue, std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    if (queue->gone) return;
    queue->waiting.push_back(std::move(task));
    if (queue->ended || queue->running == queue->bound) return;
    ++queue->running;
    give_thread(queue);
  }

  Subscription post_after(const QueuePtr& queue, std::chrono::nanoseconds delay,
                          std::function<void()> task) {
    // The handle also cancels between the end of the delay and the task's turn.
    struct Pending {
      detail::CallGate gate;
      std::function<void()> task;
      Subscription timer;
    };
    const auto pending = std::make_shared<Pending>();
    pending->task = std::move(task);
    Subscription timer = timers_.executor().post_after(delay, [this, queue, pending] {
      post(queue,
           [pending] { pending->gate.run([&] { std::exchange(pending->task, nullptr)(); }); });
    });
    pending->timer = std::move(timer);
    return Subscription(std::shared_ptr<void>(pending.get(), [pending](void*) {
      pending->timer.reset();
      if (pending->gate.close()) pending->task = nullptr;
    }));
  }

  void join(Queue& queue) {
    std::unique_lock lock(mutex_);
    const auto none_runs = [&queue] { return queue.running == 0; };
    queue.idle.wait_for(lock, kLastTasks, none_runs);
    queue.ended = true;
    queue.running -= static_cast<unsigned>(std::erase_if(
        without_thread_, [&](const QueuePtr& other) { return other.get() == &queue; }));
    queue.idle.wait(lock, none_runs);
  }

  // After join(). Destroyed without the lock: what tasks capture may post here when it dies.
  void drop(Queue& queue) {
    std::deque<std::function<void()>> dropped;
    const std::lock_guard lock(mutex_);
    queue.gone = true;
    dropped.swap(queue.waiting);
  }

  bool runs_here(const Queue& queue) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
      return worker.queue.get() == &queue && worker.thread.get_id() == std::this_thread::get_id();
    });
  }

  void watch(const WatchedExecutor& lane) {
    const std::lock_guard lock(mutex_);
    watched_.push_back(&lane);
  }
  void forget(const WatchedExecutor& lane) {
    const std::lock_guard lock(mutex_);
    std::erase(watched_, &lane);
  }
  std::vector<std::string> hanging() const {
    std::vector<std::string> names;
    const std::lock_guard lock(mutex_);
    for (const WatchedExecutor* lane : watched_)
      if (const Status alive = lane->check(); !alive.ok()) names.push_back(alive.error().message);
    return names;
  }

  const Clock& clock;

 private:
  struct Worker {
    std::thread thread;
    std::condition_variable woken;
    QueuePtr queue;  // whose tasks it runs; null: it is idle
  };

  // Precondition: mutex_ held. So there is no more than one thread for each of the `running`.
  void give_thread(const QueuePtr& queue) {
    if (!idle_.empty()) {
      Worker* worker = idle_.back();  // the others may rest until they end
      idle_.pop_back();
      worker->queue = queue;
      worker->woken.notify_one();
      return;
    }
    Worker& worker = workers_.emplace_back();
    worker.queue = queue;
    try {
      worker.thread = std::thread([this, &worker] { work(worker); });
    } catch (const std::system_error& fault) {  // the process has as many as it may have
      workers_.pop_back();
      if (log_ != nullptr && !std::exchange(lacks_threads_, true))
        log_->error("no thread can be started: work waits; allow the process more threads",
                    {{"cause", fault.what()}});
      without_thread_.push_back(queue);
      if (std::exchange(tries_again_, true)) return;
      again_ = timers_.executor().post_after(kTryAgain, [this] { try_again(); });
    }
  }

  void try_again() {
    const std::lock_guard lock(mutex_);
    tries_again_ = false;
    for (const QueuePtr& queue : std::exchange(without_thread_, {})) give_thread(queue);
    lacks_threads_ = !without_thread_.empty();
  }

  void work(Worker& self) {
    ::pthread_setname_np(::pthread_self(), "osm-lane");
    ::pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
    std::unique_lock lock(mutex_);
    while (self.queue) {
      run(*self.queue, lock);
      self.queue = nullptr;
      if (!without_thread_.empty()) {
        self.queue = std::move(without_thread_.front());
        without_thread_.pop_front();
        continue;
      }
      idle_.push_back(&self);
      self.woken.wait_for(lock, rest_, [&] { return self.queue || stopping_; });
      if (!self.queue) std::erase(idle_, &self);
    }
    // Whoever ends next, or ~Pool(), joins this thread.
    std::thread before = std::exchange(ended_, std::move(self.thread));
    workers_.remove_if([&self](const Worker& worker) { return &worker == &self; });
    if (workers_.empty()) none_.notify_all();
    lock.unlock();
    if (before.joinable()) before.join();
  }

  // Runs tasks until none waits.
  static void run(Queue& queue, std::unique_lock<std::mutex>& lock) {
    while (!queue.ended && !queue.waiting.empty()) {
      std::function<void()> task = std::move(queue.waiting.front());
      queue.waiting.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // its captures may take long, too
      lock.lock();
    }
    if (--queue.running == 0) queue.idle.notify_all();
  }

  const std::chrono::milliseconds rest_;
  LogSink* const log_;
  sigset_t signals_;  // blocked where it was made, and so on its threads
  mutable std::mutex mutex_;
  std::list<Worker> workers_;
  std::vector<Worker*> idle_;            // in the order in which they became idle
  std::deque<QueuePtr> without_thread_;  // each counts as `running`
  std::thread ended_;                    // the last one that ended
  std::condition_variable none_;
  std::vector<const WatchedExecutor*> watched_;
  bool stopping_ = false;
  bool tries_again_ = false;
  bool lacks_threads_ = false;
  Threads timers_{1};
  Subscription again_;
};

class Lane::Impl final : public Executor {
 public:
  Impl(Lanes::Pool& pool, const LaneOptions& options)
      : pool_(pool),
        name_(options.name),
        metrics_(options.metrics),
        queue_(std::make_shared<Lanes::Pool::Queue>(options.bound)) {
    if (metrics_ != nullptr) count(0);
    if (options.watched) pool.watch(watched_.emplace(options.name, *this, pool.clock));
  }
  ~Impl() override {
    if (watched_) pool_.forget(*watched_);
  }

  // The executor that others see.
  Executor& tasks() { return watched_ ? static_cast<Executor&>(*watched_) : *this; }

  void post(std::function<void()> task) override {
    if (metrics_ == nullptr) return pool_.post(queue_, std::move(task));
    count(1);
    pool_.post(queue_, [this, task = std::move(task)] {
      count(-1);
      task();
    });
  }
  Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) override {
    return pool_.post_after(queue_, delay, std::move(task));
  }
  bool running_in_this_thread() const override { return pool_.runs_here(*queue_); }
  void join() { pool_.join(*queue_); }
  void drop() { pool_.drop(*queue_); }

 private:
  void count(int change) {
    const std::lock_guard lock(count_mutex_);  // two values may not change places on their way
    waiting_ += change;
    metrics_->set(kQueueLength, {{"queue", name_}}, waiting_);
  }

  Lanes::Pool& pool_;
  const std::string name_;
  MetricsSink* const metrics_;
  const Lanes::Pool::QueuePtr queue_;
  std::optional<WatchedExecutor> watched_;
  std::mutex count_mutex_;
  int waiting_ = 0;
};

Lanes::Lanes(const Clock& clock, std::chrono::milliseconds rest, LogSink* log)
    : pool_(std::make_unique<Pool>(clock, rest, log)) {}
Lanes::~Lanes() = default;
std::vector<std::string> Lanes::hanging() const { return pool_->hanging(); }

Lane::Lane(Lanes& lanes, const LaneOptions& options)
    : impl_(std::make_unique<Impl>(*lanes.pool_, options)) {}
Lane::~Lane() {
  join();
  impl_->drop();
}
void Lane::post(std::function<void()> task) { impl_->tasks().post(std::move(task)); }
Subscription Lane::post_after(std::chrono::nanoseconds delay, std::function<void()> task) {
  return impl_->tasks().post_after(delay, std::move(task));
}
bool Lane::running_in_this_thread() const { return impl_->running_in_this_thread(); }
void Lane::join() {
  require_may_wait(*this, "Lane::join");
  impl_->join();
}

}  // namespace osm::inline v1::net
