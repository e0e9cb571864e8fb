// Environment of a clause: a platform, the provider on it under watch, and a mesh that reads it.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "catalog/mesh_loop.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/provider_conformance.hpp"
#include "testing/conformance_suite.hpp"
#include "testing/provider_watch.hpp"

namespace osm::inline v1::testing {

// The namespace of every service of the suite, and its usual service.
inline const char* const kShop = "shop";
inline const ServiceName kBooks{kShop, "books"};
inline const ServiceName kMusic{kShop, "music"};

// An endpoint with an address for `n`, on port 8080, for the port "http", as shop/<account>.
Endpoint endpoint_at(std::size_t n, const std::string& account = "books");

// Drops a provider's log: in a flood it would count as the provider's memory.
class NullLog final : public LogSink {
 public:
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view, std::span<const LogField>) override {}
};

class NullMetrics final : public MetricsSink {
 public:
  void record(const MetricDescriptor&, MetricLabels, double) override {}
};

// One platform and its provider. A clause about merging has two of them.
class Party {
 public:
  Party(const PlatformFactory& factory, std::string suffix)
      : suffix_(std::move(suffix)), platform_(factory()) {}

  ProviderPlatform& platform() { return *platform_; }
  void start(const Runtime& runtime) {
    provider_ = platform_->start(runtime);
    watch_.emplace(*provider_, suffix_);
  }
  // After start().
  EndpointsProvider& provider() { return *provider_; }
  ProviderWatch& watch() { return *watch_; }

 private:
  const std::string suffix_;
  const std::unique_ptr<ProviderPlatform> platform_;
  std::unique_ptr<EndpointsProvider> provider_;
  std::optional<ProviderWatch> watch_;
};

class Bench {
 public:
  // `on_step` gets each step of the clause, for the report of a hang.
  Bench(const PlatformFactory& factory, const ConformanceOptions& options,
        std::function<void(std::string)> on_step);
  ~Bench();

  const ConformanceOptions& options() const { return options_; }
  PlatformTraits traits() { return traits_; }
  ProviderPlatform& platform() { return party_.platform(); }
  ProviderWatch& watch() { return party_.watch(); }
  EndpointsProvider& provider() { return party_.provider(); }
  Party& second();  // created by the first call, not started
  ManualClock& clock() { return clock_; }
  ManualExecutor& executor() { return executor_; }
  CapturingMetrics& metrics() { return metrics_; }
  // Runtime parts for a provider.
  Runtime runtime() { return {executor_, executor_, clock_, rng_, quiet_log_, quiet_metrics_}; }
  void step(std::string what) { on_step_(std::move(what)); }

  // Starts the provider, and a mesh with `services` that reads it, and `others` after it.
  void start(const std::vector<ServiceName>& services,
             const std::vector<EndpointsProvider*>& others = {});
  // As start(), and waits until the mesh is ready. Result: false if it is not; the clause "synced"
  // then says why.
  bool start_ready(const std::vector<ServiceName>& services,
                   const std::vector<EndpointsProvider*>& others = {});

  // Advances virtual time and delivers events until `condition`. Result: true if within the
  // deadline.
  bool wait(const std::function<bool()>& condition);
  // Some rounds of the same, to show that something does not happen.
  void settle();

  // Puts a service on the platform, and waits until the provider lists it. Result: as lists().
  bool put(const ServiceName& service, const std::vector<Endpoint>& endpoints);
  // Waits until the provider lists `expected`. Result: false at the deadline.
  bool lists(const ServiceName& service, const Known& expected);
  // Waits until the mesh serves `expected`. The mesh is told to read the service; the clause
  // "events" finds missing announcements.
  bool serves(const ServiceName& service, const Known& expected);
  // The same without telling the mesh.
  bool comes_to_serve(const ServiceName& service, const Known& expected);
  // Healthy endpoints that the mesh serves now, ordered; nullopt: no provider knows the service.
  Known served(const ServiceName& service) const;
  bool ready() const { return loop_ && loop_->snapshots().load() != nullptr; }
  std::shared_ptr<const model::MeshSnapshot> snapshot() const { return loop_->snapshots().load(); }
  std::vector<std::string> waiting_for() const { return loop_->waiting_for(); }
  // Status of the provider under test, as the mesh sees it.
  ProviderStatus status() const;
  // The mesh's first problem of this code; empty: none.
  std::string problem(ErrorCode code) const;

  // Runs `call` on a separate thread. Result: its result; nullopt if it did not return within the
  // options' call_limit. The end of the clause waits for it.
  template <class Call>
  auto in_time(Call call) -> std::optional<decltype(call())> {
    std::packaged_task<decltype(call())()> task(std::move(call));
    auto result = task.get_future();
    {
      std::lock_guard lock(callers_mutex_);  // a provider may announce on two threads
      callers_.emplace_back(std::move(task));
    }
    if (result.wait_for(options_.call_limit) != std::future_status::ready) return std::nullopt;
    return result.get();
  }

 private:
  void run_round();

  ConformanceOptions options_;
  PlatformFactory factory_;
  std::function<void(std::string)> on_step_;
  PlatformTraits traits_;
  ManualClock clock_;
  ManualExecutor executor_{clock_};
  RandomRng rng_{options_.seed};
  CapturingLog log_;  // log of the mesh
  CapturingMetrics metrics_;
  MemoryMeshSpec spec_;
  NullLog quiet_log_;  // log of the provider
  NullMetrics quiet_metrics_;
  Party party_;
  std::optional<Party> second_;
  std::unique_ptr<catalog::MeshLoop> loop_;
  std::mutex callers_mutex_;
  std::list<std::thread> callers_;
};

using ClauseEntry = SuiteClause<Bench>;

std::vector<ClauseEntry> first_list_clauses();        // provider_clauses_list.cpp
std::vector<ClauseEntry> outage_clauses();            // provider_clauses_outage.cpp
std::vector<ClauseEntry> answer_clauses();            // provider_clauses_answers.cpp
std::vector<ClauseEntry> conduct_clauses();           // provider_clauses_conduct.cpp
std::vector<ClauseEntry> workload_clauses();          // provider_clauses_workloads.cpp
std::vector<ClauseEntry> workload_conduct_clauses();  // provider_clauses_crew.cpp

}  // namespace osm::inline v1::testing
