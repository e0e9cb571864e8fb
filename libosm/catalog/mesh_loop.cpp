#include "catalog/mesh_loop.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/strand.hpp"
#include "catalog/mesh_builder.hpp"

namespace osm::catalog {
namespace {

constexpr std::chrono::seconds kRetryAfter{1};

// What happened since the last build. Folded where events arrive, taken by the strand.
struct Events {
  std::vector<ObjectKey> spec;
  std::vector<ServiceName> endpoints;
  bool workloads = false;
};

}  // namespace

// Tasks hold it weakly and lock it while they run: a loop that is destroyed by a subscriber of its
// own snapshots lives until that task returns.
class MeshLoop::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(const MeshLoopOptions& options)
      : spec_(options.spec),
        clock_(options.clock),
        log_(options.log),
        metrics_(options.metrics),
        builder_(options.spec, options.providers, options.workload_providers, options.trust_domain),
        waiting_for_(builder_.waiting_for()),
        strand_(options.executor),
        debounce_(strand_, options.clock, options.debounce, [this] { post(&Impl::build); }) {}

  void start(const MeshLoopOptions& options) {
    const auto weak = weak_from_this();
    subscribe("mesh specification", [&] {
      return options.spec.subscribe([weak](const std::vector<ObjectKey>& changed) {
        fold(weak, [&](Events& events) {
          events.spec.insert(events.spec.end(), changed.begin(), changed.end());
        });
      });
    });
    for (const ProviderEntry& entry : options.providers)
      subscribe("endpoints provider", [&] {
        return entry.provider->subscribe([weak](const std::vector<ServiceName>& changed) {
          fold(weak, [&](Events& events) {
            events.endpoints.insert(events.endpoints.end(), changed.begin(), changed.end());
          });
        });
      });
    for (WorkloadProvider* provider : options.workload_providers)
      subscribe("workload provider", [&] {
        return provider->subscribe_workloads([weak](const std::vector<WorkloadName>& changed) {
          fold(weak, [&](Events& events) { events.workloads |= !changed.empty(); });
        });
      });
    fold(weak, [](Events&) {});
  }

  void stop() {
    stopped_ = true;
    std::vector<Subscription> subscriptions;
    {
      std::lock_guard lock(mutex_);
      subscriptions.swap(subscriptions_);
    }
    subscriptions.clear();  // waits for callbacks, which take mutex_
    strand_.stop();
  }

  SnapshotCell<model::MeshSnapshot>& snapshots() { return snapshots_; }

  std::vector<std::string> waiting_for() const {
    std::lock_guard lock(mutex_);
    return waiting_for_;
  }

  std::vector<endpoint::ProviderStatus> providers() const {
    std::lock_guard lock(mutex_);
    return providers_;
  }

 private:
  // Adds to the pending events; the first of a burst wakes the strand.
  template <class Add>
  static void fold(const std::weak_ptr<Impl>& weak, Add add) {
    const auto self = weak.lock();
    if (!self) return;
    {
      std::lock_guard lock(self->mutex_);
      add(self->events_);
      if (std::exchange(self->woken_, true)) return;
    }
    self->post(&Impl::wake);
  }

  // Runs `step` on the strand, holding the loop while it runs.
  void post(void (Impl::*step)()) {
    strand_.post([weak = weak_from_this(), step] {
      if (const auto self = weak.lock()) (self.get()->*step)();
    });
  }

  // Providers are other people's code: one that cannot be subscribed to is still read, late.
  template <class Subscribe>
  void subscribe(std::string_view to, Subscribe call) {
    try {
      Subscription subscription = call();
      std::lock_guard lock(mutex_);
      subscriptions_.push_back(std::move(subscription));
    } catch (const std::exception& error) {
      log_.error("subscribing failed; its changes will be seen late",
                 {{"to", std::string(to)}, {"cause", error.what()}});
    }
  }

  void wake() {
    {
      std::lock_guard lock(mutex_);
      woken_ = false;
    }
    debounce_.trigger();
  }

  void build() {
    Events events;
    {
      std::lock_guard lock(mutex_);
      events = std::exchange(events_, {});
    }
    const SteadyTime begun = clock_.steady_now();
    builder_.spec_changed(events.spec);
    builder_.endpoints_changed(events.endpoints);
    if (events.workloads) builder_.workloads_changed();
    const auto snapshot = builder_.build();
    report_providers();
    retry_when_failed();
    if (!snapshot) {
      if (!snapshots_.load()) set_waiting_for(builder_.waiting_for());
      return;
    }
    report(*snapshot, clock_.steady_now() - begun);
    set_waiting_for({});
    if (!stopped_) snapshots_.publish(snapshot);  // last: a subscriber may destroy the loop
  }

  void set_waiting_for(std::vector<std::string> missing) {
    std::lock_guard lock(mutex_);
    waiting_for_ = std::move(missing);
  }

  void retry_when_failed() {
    retry_.reset();
    if (!builder_.has_failures()) return;
    retry_ = strand_.post_after(kRetryAfter, [weak = weak_from_this()] {
      if (const auto loop = weak.lock()) loop->debounce_.trigger();
    });
  }

  void report_providers() {
    const auto fresh = builder_.endpoints().providers();
    std::vector<endpoint::ProviderStatus> before;
    {
      std::lock_guard lock(mutex_);
      before = std::exchange(providers_, fresh);
    }
    if (before == fresh) return;
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      const endpoint::ProviderStatus& now = fresh[i];
      const bool healthy = now.synced && !now.stale && now.failure.empty();
      metrics_.set("osm_endpoints_provider_synced", {{"provider", now.id}}, now.synced ? 1 : 0);
      metrics_.set("osm_endpoints_provider_healthy", {{"provider", now.id}}, healthy ? 1 : 0);
      if (i < before.size() && before[i].synced != now.synced)
        log_.info("endpoints provider has synced", {{"provider", now.id}});
    }
  }

  // Every problem is logged once, when it appears, and once when it is gone.
  void report(const model::MeshSnapshot& snapshot, std::chrono::nanoseconds took) {
    metrics_.add("osm_mesh_snapshots_total", {}, 1);
    metrics_.observe("osm_mesh_snapshot_build_seconds", {},
                     std::chrono::duration<double>(took).count());
    metrics_.set("osm_mesh_services", {}, static_cast<double>(snapshot.services.size()));
    metrics_.set("osm_mesh_workloads", {}, static_cast<double>(snapshot.workloads.size()));
    log_.debug("mesh snapshot", {{"generation", std::to_string(snapshot.generation)}});
    const auto& before = *problems_;
    const auto& now = *snapshot.problems;
    const auto each_new = [](const auto& from, const auto& to, auto call) {
      std::vector<Problem> fresh;
      std::set_difference(to.begin(), to.end(), from.begin(), from.end(),
                          std::back_inserter(fresh));
      for (const Problem& problem : fresh) call(problem);
    };
    each_new(before, now, [&](Problem problem) {
      // Snapshots hold no places: an edit that only moves an object must change none.
      if (problem.path.empty()) problem.locate(spec_.source_of(problem.object));
      log_.warning(problem.text(), {{"code", std::string(error_code_text(problem.code))},
                                    {"object", problem.object.str()},
                                    {"file", problem.path},
                                    {"line", std::to_string(problem.line)},
                                    {"field", problem.field}});
    });
    each_new(now, before, [&](const Problem& problem) {
      log_.info("resolved: " + problem.text(),
                {{"code", std::string(error_code_text(problem.code))}});
    });
    std::map<ErrorCode, int> counts;
    for (const Problem& problem : before) counts[problem.code] = 0;
    for (const Problem& problem : now) ++counts[problem.code];
    for (const auto& [code, count] : counts)
      metrics_.set("osm_mesh_problems", {{"code", error_code_text(code)}}, count);
    problems_ = snapshot.problems;
  }

  const MeshSpec& spec_;
  const Clock& clock_;
  LogSink& log_;
  MetricsSink& metrics_;
  std::atomic<bool> stopped_ = false;

  // Of the strand.
  MeshBuilder builder_;
  std::shared_ptr<const std::vector<Problem>> problems_ =
      std::make_shared<const std::vector<Problem>>();

  SnapshotCell<model::MeshSnapshot> snapshots_;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::string> waiting_for_;
  std::vector<endpoint::ProviderStatus> providers_;
  std::vector<Subscription> subscriptions_;
  Events events_;
  bool woken_ = false;  // a wake() is on its way

  // Last, so that timers die first.
  Strand strand_;
  Debounce debounce_;
  Subscription retry_;
};

MeshLoop::MeshLoop(const MeshLoopOptions& options) : impl_(std::make_shared<Impl>(options)) {
  impl_->start(options);
}

MeshLoop::~MeshLoop() { stop(); }

SnapshotCell<model::MeshSnapshot>& MeshLoop::snapshots() { return impl_->snapshots(); }
std::vector<std::string> MeshLoop::waiting_for() const { return impl_->waiting_for(); }
std::vector<endpoint::ProviderStatus> MeshLoop::providers() const { return impl_->providers(); }
void MeshLoop::stop() { impl_->stop(); }

}  // namespace osm::catalog
