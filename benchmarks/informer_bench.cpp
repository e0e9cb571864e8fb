// Work and memory of following 10,000 pods stay within the baseline, and heartbeats reach nobody.
//
// The cost of following a cluster. An API server in a process of its own lists and watches. This
// process holds the parts of osm-controller that read it: connection, store, specification,
// provider of pods, catalog. See README.md.
//
//   informer_bench [--cluster SERVICESxPODSxPOLICIES] [--gate | --update-baseline] [--baseline
//   FILE]
#include <malloc.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api_server_process.hpp"
#include "baseline.hpp"
#include "catalog/mesh_loop.hpp"
#include "counting_sinks.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "process_usage.hpp"
#include "temporary_directory.hpp"

namespace osm::bench {
namespace {

constexpr int kEvents = 1000;
constexpr int kRelists = 8;
constexpr int kSettled = 4;  // after so many the allocator has the pieces it goes on with
constexpr auto kPatience = std::chrono::seconds(120);

// Memory differs from run to run, so it is held to bounds instead of the baseline.
constexpr int kPodsToJudgeMemory = 1000;  // below, what does not depend on pods shows
// Everything that is kept, over the pods. A pod of 1.1 kB of JSON takes 5 kB parsed.
constexpr double kMostBytesPerPod = 25 * 1024;
constexpr double kMostGrowthByRelists = 2 * 1024 * 1024.0;  // from the first to the last

// All that happened so far, by the names that baseline.json has.
using Happened = Counts;

Counts difference(const Happened& now, const Happened& before) {
  Counts counts;
  for (const auto& [name, number] : now) counts[name] = number - before.at(name);
  return counts;
}

// The provider's workloads, and how many of them the catalog asked for.
class CountedWorkloads final : public WorkloadProvider {
 public:
  explicit CountedWorkloads(kubernetes::Provider& inner) : inner_(inner) {}

  bool workloads_synced() const override { return inner_.has_synced(); }
  std::vector<Workload> list_workloads() const override {
    auto list = inner_.list_workloads();
    read_ += list.size();
    return list;
  }
  std::optional<Workload> find_workload(const WorkloadName& name) const override {
    ++read_;
    return inner_.find_workload(name);
  }
  std::vector<Problem> list_problems() const override { return inner_.list_problems(); }
  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>&)> on_change) override {
    return inner_.subscribe_workloads(std::move(on_change));
  }
  std::size_t read() const { return read_; }

 private:
  kubernetes::Provider& inner_;
  mutable std::atomic<std::size_t> read_ = 0;
};

// The parts of osm-controller that read a cluster.
class Follower {
 public:
  Status start(const std::string& kubeconfig) {
    OSM_TRY(cluster_, kubernetes::connect({.kubeconfig = kubeconfig,
                                           .io = io_.executor(),
                                           .runtime = {io_.executor(), blocking_.executor(), clock_,
                                                       rng_, log_, metrics_}}));
    store_ = kubernetes::make_store(
        {.cluster = *cluster_,
         .runtime = {strands_.executor(), strands_.executor(), clock_, rng_, log_, metrics_}});
    objects_ = store_->subscribe([this](const auto& keys) { objects_told_ += keys.size(); });
    spec_ = spec::make_mesh_spec({.store = *store_, .log = log_, .metrics = metrics_});
    provider_ = kubernetes::make_provider(
        {.store = *store_, .mesh_spec = *spec_, .log = log_, .metrics = metrics_});
    services_ = provider_->subscribe([this](const auto& names) { services_told_ += names.size(); });
    workloads_ = provider_->subscribe_workloads(
        [this](const auto& names) { workloads_told_ += names.size(); });
    workloads_read_ = std::make_unique<CountedWorkloads>(*provider_);
    loop_ = std::make_unique<catalog::MeshLoop>(catalog::MeshLoopOptions{
        .spec = *spec_,
        .providers = {{provider_.get()}},
        .workload_providers = {workloads_read_.get()},
        .runtime = {strands_.executor(), strands_.executor(), clock_, rng_, log_, metrics_}});
    snapshots_ = loop_->snapshots().subscribe([this](const auto& mesh) {
      mesh_services_ += mesh->changes.endpoints.size();
      mesh_workloads_ += mesh->changes.workloads.size();
    });
    return until("the cluster is a mesh", [this] { return loop_->snapshots().load() != nullptr; });
  }

  // Result: kDeadlineExceeded.
  Status until(const char* what, const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline)
        return Error{ErrorCode::kDeadlineExceeded, std::string("waited in vain until ") + what};
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    // The task that made it hold runs on the one thread of the strands; it is over after this.
    std::promise<void> over;
    strands_.executor().post([&over] { over.set_value(); });
    over.get_future().wait();
    return {};
  }

  double events() const { return sum("osm_kubernetes_watch_events_total"); }
  double meshes() const { return sum("osm_mesh_snapshots_total"); }

  Happened happened() const {
    return {{"decoded", count("osm_kubernetes_decoded_total")},
            {"lists", count("osm_kubernetes_watch_lists_total")},
            {"mesh_services", mesh_services_},
            {"mesh_workloads", mesh_workloads_},
            {"objects_told", objects_told_},
            {"services_recomputed", count("osm_kubernetes_services_recomputed_total")},
            {"services_told", services_told_},
            {"workloads_read", workloads_read_->read()},
            {"workloads_told", workloads_told_}};
  }

  // True when the catalog has read everything that the provider announced since `before`. Labels of
  // a workload are not part of the mesh: it reads the workload, and the mesh stays the same.
  bool mesh_follows(const Happened& before) const {
    Happened since = difference(happened(), before);
    return since["mesh_services"] >= since["services_told"] &&
           since["workloads_read"] >= since["workloads_told"];
  }

  // True when everything of the cluster was read.
  bool holds(const ClusterSize& size) const {
    std::size_t endpoints = 0;
    for (const auto& service : spec_->list_services())
      if (const auto list = provider_->list_endpoints_for_service(service->name))
        endpoints += list->size();
    for (const Problem& problem : spec_->list_problems()) std::cerr << problem.text() << '\n';
    for (const Problem& problem : provider_->list_problems()) std::cerr << problem.text() << '\n';
    const auto pods = static_cast<std::size_t>(size.pods);
    std::size_t in_the_mesh = 0;
    const auto mesh = loop_->snapshots().load();
    for (const auto& service : mesh->endpoints) in_the_mesh += service->endpoints.size();
    return in_the_mesh == pods && mesh->workloads.size() == pods && endpoints == pods &&
           provider_->list_workloads().size() == pods &&
           spec_->list_services().size() == static_cast<std::size_t>(size.services) &&
           spec_->list_traffic_targets().size() + spec_->list_http_traffic_specs().size() ==
               static_cast<std::size_t>(size.policies);
  }

 private:
  // Sum over all kinds.
  double sum(const std::string& metric) const {
    double total = 0;
    for (const auto& [name, value] : metrics_.values())
      if (name == metric || name.starts_with(metric + "{")) total += value;
    return total;
  }
  std::uint64_t count(const std::string& metric) const {
    return static_cast<std::uint64_t>(sum(metric));
  }

  const SystemClock clock_;
  RandomRng rng_;
  WarningLog log_;
  CountingMetrics metrics_;
  net::Threads io_{1};
  net::Threads blocking_{1};  // ends before what it answers to
  net::Threads strands_{1};   // one, so that tasks are in order: see until()
  std::atomic<std::size_t> objects_told_ = 0;
  std::atomic<std::size_t> services_told_ = 0;
  std::atomic<std::size_t> workloads_told_ = 0;
  std::unique_ptr<kubernetes::Cluster> cluster_;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<kubernetes::Provider> provider_;
  std::unique_ptr<CountedWorkloads> workloads_read_;
  std::unique_ptr<catalog::MeshLoop> loop_;
  std::atomic<std::size_t> mesh_services_ = 0;
  std::atomic<std::size_t> mesh_workloads_ = 0;
  Subscription snapshots_;
  Subscription objects_;
  Subscription services_;
  Subscription workloads_;
};

class Bench {
 public:
  explicit Bench(const ClusterSize& size) : size_(size) {}

  Status run() {
    OSM_TRY(server_, ApiServerProcess::start(size_, directory_.path));
    Follower follower;
    fmt::print("{}: {} services, {} pods, {} policies\n", size_.name(), size_.services, size_.pods,
               size_.policies);
    Status done = start(follower);
    if (done) done = events(follower);
    if (done) done = relist(follower);
    return done;
  }

  const Counts& counts() const { return counts_; }
  // Sentences of what is not as it should be.
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  void expect(bool holds, std::string what) {
    if (!holds) faults_.push_back(std::move(what));
  }
  void keep(const std::string& step, const Counts& counts) {
    for (const auto& [name, number] : counts) counts_[step + '.' + name] = number;
  }

  Status start(Follower& follower) {
    OSM_TRY(const auto parsing, server_->parse_everything());
    parsing_1000_pods_ms_ =
        parsing.cpu_seconds * 1e3 * parsing.pod_bytes / parsing.bytes / size_.pods * 1000;
    const double empty = resident_bytes();
    const double cpu_before = cpu_seconds();
    const auto begin = std::chrono::steady_clock::now();
    if (Status synced = follower.start(server_->kubeconfig()); !synced) return synced;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    const double cpu = cpu_seconds() - cpu_before;
    const double peak = peak_resident_bytes() - empty;
    const double held = resident_bytes() - empty;
    const double per_pod = held / size_.pods;
    fmt::print("  listed                {:8.1f} MB, {:.1f} kB a pod\n", parsing.bytes / 1e6,
               parsing.pod_bytes / size_.pods / 1e3);
    fmt::print(
        "  until synced          {:8.2f} s wall   {:8.2f} s CPU ({:.2f} x boost::json alone)\n",
        wall.count(), cpu, cpu / parsing.cpu_seconds);
    fmt::print("  memory                {:8.1f} MB, {:.1f} kB a pod, at most {:.1f} MB meanwhile\n",
               held / 1e6, per_pod / 1e3, peak / 1e6);
    // In which order kinds arrive decides how often Services are worked out and told: no count of
    // those here.
    Happened now = follower.happened();
    keep("start", {{"decoded", now["decoded"]}, {"lists", now["lists"]}});
    expect(follower.holds(size_), "what was read is not the whole cluster");
    expect(
        size_.pods < kPodsToJudgeMemory || per_pod <= kMostBytesPerPod,
        fmt::format("memory over pods is {:.0f} bytes, more than {}", per_pod, kMostBytesPerPod));
    return {};
  }

  Status events(Follower& follower) {
    struct Step {
      const char* name;
      Happening what;
      const char* must_be_told;  // the count that says so, once each; null: nothing
    };
    for (const Step& step : {Step{"heartbeat", Happening::kHeartbeat, nullptr},
                             Step{"label", Happening::kLabel, "objects_told"},
                             Step{"pod_ready", Happening::kPodReady, "objects_told"},
                             Step{"slice_ready", Happening::kSliceReady, "services_told"},
                             Step{"pod_moved", Happening::kPodMoved, "workloads_told"}}) {
      const Happened before = follower.happened();
      const double meshes_before = follower.meshes();
      const double already = follower.events();
      const int many = std::min(kEvents, size_.services);  // each of another Service
      const double cpu_before = cpu_seconds();
      if (Status sent = server_->happen(step.what, many); !sent) return sent;
      if (Status seen = follower.until("events are taken",
                                       [&] { return follower.events() >= already + many; });
          !seen)
        return seen.error().with_context(step.name);
      if (Status built =
              follower.until("they are in the mesh", [&] { return follower.mesh_follows(before); });
          !built)
        return built.error().with_context(step.name);
      const double cpu_ms = (cpu_seconds() - cpu_before) * 1e3;
      Counts counts = difference(follower.happened(), before);
      keep(step.name, counts);
      const double meshes = follower.meshes() - meshes_before;
      const double per_1000_ms = cpu_ms * 1000 / many;
      fmt::print(
          "  1,000 x {:12}  {:8.1f} ms CPU ({:.2f} x parsing 1,000 pods)   {} told   {} decoded   "
          "{} Services recomputed, {} told   {} workloads told, {} read   {} meshes\n",
          step.name, per_1000_ms, per_1000_ms / parsing_1000_pods_ms_, counts["objects_told"],
          counts["decoded"], counts["services_recomputed"], counts["services_told"],
          counts["workloads_told"], counts["workloads_read"], meshes);
      if (step.must_be_told != nullptr)
        expect(counts[step.must_be_told] == static_cast<std::uint64_t>(many),
               fmt::format("{}: not every event was told", step.name));
    }
    return {};
  }

  Status relist(Follower& follower) {
    double first = 0;
    double last = 0;
    const auto kinds = counts_.at("start.lists");
    const Happened before = follower.happened();
    const double cpu_before = cpu_seconds();
    for (int i = 0; i < kRelists; ++i) {
      const auto lists = follower.happened()["lists"];
      if (Status sent = server_->expire(kinds); !sent) return sent;
      if (Status listed =
              follower.until("the cluster is listed again",
                             [&] { return follower.happened()["lists"] >= lists + kinds; });
          !listed)
        return listed;
      ::malloc_trim(0);  // what is free in between is nobody's growth
      last = resident_bytes();
      if (i + 1 == kSettled) first = last;
    }
    Counts counts = difference(follower.happened(), before);
    keep("relist", counts);
    fmt::print(
        "  listed again          {:8.2f} s CPU each, memory grown by {:.0f} kB over the last {}"
        "   {} objects told\n",
        (cpu_seconds() - cpu_before) / kRelists, (last - first) / 1e3, kRelists - kSettled,
        counts["objects_told"]);
    expect(last - first <= kMostGrowthByRelists, "memory grows with every list");
    return {};
  }

  const ClusterSize size_;
  TemporaryDirectory directory_;
  std::unique_ptr<ApiServerProcess> server_;
  double parsing_1000_pods_ms_ = 0;  // by boost::json alone
  Counts counts_;
  std::vector<std::string> faults_;
};

int fail(const Error& error) {
  std::cerr << error.text() << '\n';
  return 1;
}

int run(const ClusterSize& size, const std::string& file, bool gate, bool update) {
  Baseline baseline;
  if (gate || update) {
    auto loaded = load_baseline(file);
    if (!loaded) return fail(loaded.error());
    baseline = *std::move(loaded);
  }
  Bench bench(size);
  if (Status done = bench.run(); !done) return fail(done.error());
  std::vector<std::string> worse = bench.faults();
  if (gate)
    for (std::string& line : regressions(size.name(), bench.counts(), baseline))
      worse.push_back(std::move(line));
  if (update) {
    baseline.counts[size.name()] = bench.counts();
    if (Status saved = save_baseline(file, baseline); !saved) return fail(saved.error());
  }
  std::fflush(stdout);
  for (const std::string& line : worse) std::cerr << "WORSE " << line << '\n';
  return worse.empty() ? 0 : 1;
}

}  // namespace
}  // namespace osm::bench

int main(int argc, char** argv) {
  osm::bench::ClusterSize size;
  std::string cluster = "1000x10000x2000";
  std::string baseline;
  bool gate = false;
  bool update = false;
  CLI::App app("Measures what following a Kubernetes cluster costs");
  app.add_option("--cluster", cluster, "SERVICESxPODSxPOLICIES")->capture_default_str();
  auto* file = app.add_option("--baseline", baseline, "baseline.json");
  app.add_flag("--gate", gate, "Fail when a count is worse than the baseline")->needs(file);
  app.add_flag("--update-baseline", update, "Write what was measured")->needs(file);
  CLI11_PARSE(app, argc, argv);
  if (std::sscanf(cluster.c_str(), "%dx%dx%d", &size.services, &size.pods, &size.policies) != 3 ||
      size.services < 1 || size.pods < size.services || size.policies > 2 * size.services ||
      size.name() != "cluster-" + cluster) {
    std::cerr << cluster
              << ": not a cluster; write SERVICESxPODSxPOLICIES with at least one pod and "
                 "at most two policies a Service\n";
    return 2;
  }
  return osm::bench::run(size, baseline, gate, update);
}
