// Environment of a clause about a store: a source, the store on it, and its announcements.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/store_conformance.hpp"
#include "testing/conformance_suite.hpp"

namespace osm::inline v1::testing {

using ObjectPtr = std::shared_ptr<const Object>;

// HTTPRouteGroup shop/<name> whose route has this path; a Service shop/<name>.
Object route_group(const std::string& name, const std::string& path = "/", const char* ns = "shop");
Object service(const std::string& name);
// The path of a route group; empty: null.
std::string path_of(const ObjectPtr& object);

class StoreBench {
 public:
  StoreBench(const StorePlatformFactory& factory, const StoreConformanceOptions& options,
             OnStep on_step);
  ~StoreBench();

  const StoreConformanceOptions& options() const { return options_; }
  StorePlatform& platform() { return *platform_; }
  ObjectStore& store() { return *store_; }
  void step(std::string what) { on_step_(std::move(what)); }

  // Starts the store and subscribes.
  void start();
  // The same, and waits until it has synced. Result: false if it does not.
  bool start_synced();
  void unsubscribe() { told_by_.reset(); }

  // Lets time pass and delivers changes until `condition`. Result: true if within the deadline.
  bool wait(const std::function<bool()>& condition);
  // Some rounds of the same, to show that something does not happen.
  void settle();
  // Puts an object, and waits until the store has this content. Result: as wait().
  bool put(const Object& object);
  bool reads(const Object& object);

  ObjectPtr get(const ObjectKey& key) { return store_->get(key); }
  // The names of the route groups as the store lists them: "shop/a".
  std::vector<std::string> names();

  // Announced names since the last call, sorted and without repetitions.
  std::vector<std::string> told();
  // Announcements of all kinds since the start, empty ones included.
  std::size_t calls() const;
  // Announced keys whose state could not be read at that time: `expected` says what is right.
  void expect(std::function<bool(const ObjectKey&)> expected);
  std::size_t surprises() const;

  // ObjectStore::catch_up on another thread, while this one runs the store.
  bool catch_up(const ObjectKey& key, std::chrono::milliseconds timeout);

  // Runs `call` on another thread. Result: true if it returned within the options' call_limit.
  bool in_time(std::function<void()> call);

 private:
  void run_round();

  const StoreConformanceOptions options_;
  const OnStep on_step_;
  ManualClock clock_;
  ManualExecutor executor_{clock_};
  RandomRng rng_{1};
  CapturingLog log_;
  CapturingMetrics metrics_;
  std::unique_ptr<StorePlatform> platform_;
  std::unique_ptr<ObjectStore> store_;
  mutable std::mutex mutex_;  // guards the next four
  std::vector<std::string> told_;
  std::size_t calls_ = 0;
  std::size_t surprises_ = 0;
  std::function<bool(const ObjectKey&)> expected_;
  Subscription told_by_;
  std::vector<std::thread> callers_;
};

using StoreClause = SuiteClause<StoreBench>;

std::vector<StoreClause> store_list_clauses();    // store_clauses_list.cpp
std::vector<StoreClause> store_outage_clauses();  // store_clauses_outage.cpp

}  // namespace osm::inline v1::testing
