#include "catalog/mesh_loop.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/guarded.hpp"
#include "base/pulse.hpp"
#include "base/shared_metrics.hpp"
#include "base/strand.hpp"
#include "catalog/mesh_builder.hpp"
#include "catalog/readiness_gate.hpp"

namespace osm::inline v1::catalog {
namespace {

constexpr Gauge kEndpointsWaiting{"osm_endpoints_waiting",
                                  "Endpoints that wait for their proxies before clients know them"};
constexpr Counter kEndpointsAnnouncedLate{
    "osm_endpoints_announced_late_total",
    "Endpoints announced before their proxies had acknowledged that they serve"};
constexpr Gauge kPermissionsWaiting{"osm_permissions_waiting",
                                    "Permissions that wait for the proxies of servers before "
                                    "clients know them"};
constexpr Counter kPermissionsAnnouncedLate{
    "osm_permissions_announced_late_total",
    "Permissions announced before the proxies of servers had acknowledged them"};
constexpr Gauge kEndpointsProviderSynced{"osm_endpoints_provider_synced",
                                         "1 once a provider has read its first complete list",
                                         {"provider"}};
constexpr Gauge kEndpointsProviderHealthy{
    "osm_endpoints_provider_healthy", "1 while a provider's platform answers", {"provider"}};
constexpr Gauge kProviderStaleness{
    "osm_provider_staleness_seconds",
    "Seconds for which what a provider says may have been out of date",
    {"provider"}};
constexpr Counter kMeshSnapshots{"osm_mesh_snapshots_total", "Snapshots of the mesh published"};
constexpr Gauge kMeshGeneration{"osm_mesh_generation", "Changes of the mesh since the start"};
constexpr Histogram kMeshSnapshotBuild{"osm_mesh_snapshot_build_seconds",
                                       "Seconds to build a snapshot of the mesh"};
constexpr Gauge kMeshServices{"osm_mesh_services", "Services of the mesh"};
constexpr Gauge kMeshWorkloads{"osm_mesh_workloads", "Workloads of the mesh"};

constexpr std::chrono::seconds kRetryAfter{1};
constexpr std::chrono::seconds kStalenessPeriod{1};

constexpr std::size_t kMaxPendingNames = 1'000;

// Limits the number of pending names, since a provider may invent names. Beyond the limit all are
// read again.
template <class Name>
struct PendingNames {
  std::set<Name> names;
  bool all = false;

  void add(const std::vector<Name>& changed) {
    if (all) return;
    names.insert(changed.begin(), changed.end());
    if (names.size() <= kMaxPendingNames) return;
    all = true;
    names.clear();
  }
};

// Events since the last build. The threads of the sources add them, the strand takes them. They are
// kept by key, so that a flood of events takes no more memory than the source has keys.
struct Events {
  PendingNames<ServiceName> endpoints;
  PendingNames<WorkloadName> workloads;
  std::optional<TrustDomains> trust_domains;  // the newest
  SteadyTime since = SteadyTime::max();       // time of the first event

  // True if the events may contain a change of a workload that runs `services`.
  bool speak_of_workload(const WorkloadName& name, const std::vector<ServiceName>& services) const {
    return workloads.all || workloads.names.contains(name) || endpoints.all ||
           std::any_of(services.begin(), services.end(), [&](const ServiceName& service) {
             return endpoints.names.contains(service);
           });
  }
};

bool is_current(const ProviderStatus& provider) {
  return provider.synced && !provider.stale && provider.failure.empty();
}

Workload workload_of(const model::MeshSnapshot& snapshot, const WorkloadName& name) {
  for (const auto& entry : snapshot.workloads)
    if (entry->workload.name == name) return entry->workload;
  return {};
}

}  // namespace

// Tasks hold a weak pointer and lock it while they run. If a subscriber of the loop's snapshots
// destroys the loop, it lives until that task returns.
class MeshLoop::Impl : public std::enable_shared_from_this<Impl> {
  friend MeshLoop;

 public:
  explicit Impl(const MeshLoopOptions& options)
      : spec_(options.spec),
        clock_(options.runtime.clock),
        log_(options.runtime.log),
        metrics_(options.runtime.metrics),
        builder_(options.spec, options.providers, options.workload_providers, options.trust_domain),
        waiting_for_(builder_.waiting_for()),
        strand_(options.runtime.executor),
        pulse_("snapshots of the mesh", strand_, clock_),
        debounce_(strand_, options.runtime.clock, options.debounce,
                  [this] { post(&Impl::build); }) {
    builder_.on_steps([this] { strand_.tick(); });
    if (!options.readiness) return;
    gate_.emplace(*options.readiness, clock_);
    builder_.filter_announcements(*gate_);
  }

  void start(const MeshLoopOptions& options) {
    const auto weak = weak_from_this();
    subscribe("mesh specification", [&] {
      // The builder compares specifications itself.
      return options.spec.subscribe([weak](const SpecChange&) { fold(weak, [](Events&) {}); });
    });
    for (const ProviderEntry& entry : options.providers)
      subscribe("endpoints provider", [&] {
        return entry.provider->subscribe([weak](const std::vector<ServiceName>& changed) {
          fold(weak, [&](Events& events) { events.endpoints.add(changed); });
        });
      });
    for (WorkloadProvider* provider : options.workload_providers)
      subscribe("workload provider", [&] {
        return provider->subscribe_workloads([weak](const std::vector<WorkloadName>& changed) {
          fold(weak, [&](Events& events) { events.workloads.add(changed); });
        });
      });
    if (options.readiness)
      subscribe("readiness of proxies", [&] {
        return options.readiness->subscribe([weak] {
          const auto self = weak.lock();
          if (self && self->waits_) self->post(&Impl::announce_due);
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

  ObjectState object_state(const ObjectKey& object) const {
    ObjectState state;
    std::shared_ptr<const PolicyIndex> index;
    std::shared_ptr<const SpecSnapshot> objects;
    std::optional<ObjectRecord> record;
    {
      std::lock_guard lock(mutex_);
      if (!built_) return state;
      state.snapshot = built_;
      index = policy_index_;
      objects = objects_;
      record = records_.find(object);
      if (record) {
        state.generation = records_.completed_in(record->generation);
        state.pending = waiting_.generations.contains(record->generation);
      }
      if (object.is(model::kWorkloadKind)) add_endpoints(object, state);
    }
    state.pending |= object.is(kinds::kMeshConfig) && state.snapshot->smi_upstreams;
    const auto now = spec_.snapshot();
    state.pending |= !is_read(object, *now, *objects);
    if (!record) return state;
    state.present = record->present;
    state.effective = has_effect(object, *state.snapshot, *objects);
    state.scope = scope_of(object, *state.snapshot, *index);
    state.scope.merge(record->before);
    return state;
  }

 private:
  // Clients see a machine's change as a change of endpoints. Precondition: mutex_ held.
  void add_endpoints(const ObjectKey& workload, ObjectState& state) const {
    const WorkloadName name{workload.ns, workload.name};
    const Workload found = workload_of(*built_, name);
    state.pending |= events_.speak_of_workload(name, found.services) ||
                     building_.speak_of_workload(name, found.services);
    for (const ServiceName& service : found.services) {
      state.generation = std::max(state.generation, records_.endpoints_changed(service));
      state.pending |= waiting_.addresses.contains({service, found.address});
    }
  }

  // Adds to the pending events. The first of a burst wakes the strand.
  template <class Add>
  static void fold(const std::weak_ptr<Impl>& weak, Add add) {
    const auto self = weak.lock();
    if (!self) return;
    {
      std::lock_guard lock(self->mutex_);
      add(self->events_);
      self->events_.since = std::min(self->events_.since, self->clock_.steady_now());
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

  // Providers are foreign code: if subscribing throws, the provider is still read, only later.
  template <class Subscribe>
  void subscribe(std::string_view to, Subscribe call) {
    Result<Subscription> subscribed = guarded(call);
    if (!subscribed.ok())
      return log_.error("subscribing to a provider failed; its changes are seen late",
                        {{"to", std::string(to)}, {"cause", subscribed.error().message}});
    std::lock_guard lock(mutex_);
    subscriptions_.push_back(*std::move(subscribed));
  }

  void wake() {
    {
      std::lock_guard lock(mutex_);
      woken_ = false;
    }
    debounce_.trigger();
  }

  void build() {
    {
      std::lock_guard lock(mutex_);
      building_ = std::exchange(events_, {});
    }
    const SteadyTime begun = clock_.steady_now();
    const SteadyTime since = std::min(building_.since, begun);  // a retry has no events
    const auto& [services, all_services] = building_.endpoints;
    builder_.endpoints_changed({services.begin(), services.end()});
    if (all_services) builder_.all_endpoints_changed();
    const auto& [workloads, all_workloads] = building_.workloads;
    builder_.workloads_changed({workloads.begin(), workloads.end()});
    if (all_workloads) builder_.all_workloads_changed();
    if (building_.trust_domains) builder_.trust_domains_changed(*building_.trust_domains);
    const auto snapshot = builder_.build();
    const std::set<std::uint64_t> announced =
        gate_ ? gate_->end(builder_.generation(), snapshot != nullptr) : std::set<std::uint64_t>();
    report_providers();
    retry_when_failed();
    note_objects(snapshot, since, announced);
    if (gate_) wait_for_proxies();
    if (!snapshot) {
      if (!snapshots_.load()) set_waiting_for(builder_.waiting_for());
      return;
    }
    report(*snapshot, clock_.steady_now() - begun);
    metrics_.observe(kPushStage, {{"stage", "debounce"}}, begun - since);
    set_waiting_for({});
    if (!stopped_) snapshots_.publish(snapshot);  // last: a subscriber may destroy the loop
  }

  // Record the changes before the snapshot is published: no proxy can have applied a change that is
  // not recorded here.
  void note_objects(const std::shared_ptr<const model::MeshSnapshot>& snapshot, SteadyTime since,
                    const std::set<std::uint64_t>& announced) {
    const std::uint64_t generation = builder_.generation();
    {
      std::lock_guard lock(mutex_);
      building_ = {};
      if (snapshot && !built_) records_.note(model::mesh_config_key(), generation, true, {});
      for (const auto& [key, change] : builder_.object_changes())
        records_.note(key.is(kinds::kMeshConfig) ? model::mesh_config_key() : key, generation,
                      change.present, change.before);
      if (snapshot) {
        records_.note_endpoints(snapshot->changes.endpoints, snapshot->endpoints, generation);
        built_ = snapshot;
        announced_at_ = since;
      }
      records_.note_announced(announced, generation);
      if (gate_) waiting_ = gate_->waiting();
      policy_index_ = builder_.policy_index();
      objects_ = builder_.objects();
    }
    looks_.notify();
  }

  // Arranges the build that tells clients the next of what waits.
  void wait_for_proxies() {
    metrics_.set(kEndpointsWaiting, {}, waiting_.endpoints);  // written by the strand only
    metrics_.set(kPermissionsWaiting, {}, waiting_.permissions);
    const auto fresh = [](std::uint64_t now, std::uint64_t& reported) {
      return now - std::exchange(reported, now);
    };
    metrics_.add(kEndpointsAnnouncedLate, {},
                 fresh(gate_->endpoints_told_late(), reported_endpoints_));
    metrics_.add(kPermissionsAnnouncedLate, {},
                 fresh(gate_->permissions_told_late(), reported_permissions_));
    waits_ = waiting_.endpoints + waiting_.permissions != 0;
    deadline_.reset();
    if (const auto until = gate_->deadline())
      deadline_ = strand_.post_after(*until - clock_.steady_now(), [weak = weak_from_this()] {
        if (const auto loop = weak.lock()) loop->announce_due();
      });
    announce_due();  // a proxy may have been ready before waits_ was set
  }

  void announce_due() {
    if (gate_->is_due()) debounce_.trigger();
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
    std::vector<ProviderStatus> before;
    {
      std::lock_guard lock(mutex_);
      before = std::exchange(providers_, fresh);
    }
    if (before == fresh) return;
    report_staleness();
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      const ProviderStatus& now = fresh[i];
      metrics_.set(kEndpointsProviderSynced, {{"provider", now.id}}, now.synced ? 1 : 0);
      metrics_.set(kEndpointsProviderHealthy, {{"provider", now.id}}, is_current(now) ? 1 : 0);
      if (i < before.size() && before[i].synced != now.synced)
        log_.info("endpoints provider has synced", {{"provider", now.id}});
    }
  }

  // Reports how long each provider's answers may have been outdated, every second while they may
  // be.
  void report_staleness() {
    const SteadyTime now = clock_.steady_now();
    bool any = false;
    stale_since_.resize(providers_.size());
    for (std::size_t i = 0; i < providers_.size(); ++i) {
      if (is_current(providers_[i])) {
        stale_since_[i].reset();
      } else if (!stale_since_[i]) {
        stale_since_[i] = now;
      }
      any |= stale_since_[i].has_value();
      metrics_.set(kProviderStaleness, {{"provider", providers_[i].id}},
                   now - stale_since_[i].value_or(now));
    }
    staleness_.reset();
    if (any)
      staleness_ = strand_.post_after(kStalenessPeriod, [weak = weak_from_this()] {
        if (const auto loop = weak.lock()) loop->report_staleness();
      });
  }

  // Logs every problem once when it appears and once when it is gone.
  void report(const model::MeshSnapshot& snapshot, std::chrono::nanoseconds took) {
    metrics_.add(kMeshSnapshots, {}, 1);
    metrics_.set(kMeshGeneration, {}, snapshot.generation);
    metrics_.observe(kMeshSnapshotBuild, {}, took);
    metrics_.set(kMeshServices, {}, snapshot.services.size());
    metrics_.set(kMeshWorkloads, {}, snapshot.workloads.size());
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
      // Snapshots hold no places: an edit that only moves an object must not change a snapshot.
      if (problem.path.empty())
        problem.locate(spec_.source_of(problem.object).value_or(ObjectSource{}));
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
    problems_ = snapshot.problems;
  }

  const MeshSpec& spec_;
  const Clock& clock_;
  LogSink& log_;
  MetricsSink& metrics_;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> waits_ = false;  // for proxies

  // Used on the strand only.
  std::optional<ReadinessGate> gate_;  // outlives the builder
  MeshBuilder builder_;
  std::uint64_t reported_endpoints_ = 0, reported_permissions_ = 0;  // told late
  std::shared_ptr<const std::vector<Problem>> problems_ =
      std::make_shared<const std::vector<Problem>>();
  std::vector<std::optional<SteadyTime>> stale_since_;  // by provider

  SnapshotCell<model::MeshSnapshot> snapshots_;
  Notifier<> looks_;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::string> waiting_for_;
  std::vector<ProviderStatus> providers_;
  std::vector<Subscription> subscriptions_;
  Events events_;
  Events building_;  // changed by the strand only
  ObjectRecords records_;
  ReadinessGate::Waiting waiting_;                    // of the last build; changed by the strand
  std::shared_ptr<const model::MeshSnapshot> built_;  // the snapshot that records_ refer to
  SteadyTime announced_at_ = SteadyTime::max();       // the first change of built_
  std::shared_ptr<const PolicyIndex> policy_index_;   // index of built_
  std::shared_ptr<const SpecSnapshot> objects_;       // the objects that were read last
  bool woken_ = false;                                // a wake() is posted

  // Last, so that timers die first.
  Strand strand_;
  Pulse pulse_;
  Debounce debounce_;
  Subscription retry_;
  Subscription staleness_;
  Subscription deadline_;
};

MeshLoop::MeshLoop(const MeshLoopOptions& options) : impl_(std::make_shared<Impl>(options)) {
  impl_->start(options);
}

MeshLoop::~MeshLoop() { stop(); }

SnapshotCell<model::MeshSnapshot>& MeshLoop::snapshots() { return impl_->snapshots_; }
std::vector<std::string> MeshLoop::waiting_for() const {
  std::lock_guard lock(impl_->mutex_);
  return impl_->waiting_for_;
}
std::vector<ProviderStatus> MeshLoop::providers() const {
  std::lock_guard lock(impl_->mutex_);
  return impl_->providers_;
}
Status MeshLoop::alive() const { return impl_->pulse_.check(); }
ObjectState MeshLoop::object_state(const ObjectKey& object) const {
  return impl_->object_state(object);
}
SteadyTime MeshLoop::announced_at() const {
  std::lock_guard lock(impl_->mutex_);
  return impl_->announced_at_;
}
LateChanges MeshLoop::changed_after(std::uint64_t generation) const {
  std::lock_guard lock(impl_->mutex_);
  if (!impl_->built_) return {};
  return {impl_->built_, impl_->records_.changed_after(generation)};
}
Subscription MeshLoop::subscribe_looks(std::function<void()> on_look) {
  return impl_->looks_.subscribe(std::move(on_look));
}
void MeshLoop::set_trust_domains(const TrustDomains& trust_domains) {
  Impl::fold(impl_, [&](Events& events) { events.trust_domains = trust_domains; });
}
void MeshLoop::stop() { impl_->stop(); }

}  // namespace osm::inline v1::catalog
