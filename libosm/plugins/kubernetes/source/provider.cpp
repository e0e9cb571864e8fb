// Pods and EndpointSlices of an ObjectStore as endpoints and workloads.
#include <algorithm>
#include <mutex>
#include <utility>

#include "kubernetes/client/resources.hpp"
#include "kubernetes/source/slice_table.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::kubernetes {
namespace {

bool is_read(const std::string& kind) { return kind == kPods.kind || kind == kEndpointSlices.kind; }

// One namespace of the mesh.
struct NamespaceTables {
  explicit NamespaceTables(const std::string& ns) : pods(ns), slices(ns) {}

  PodTable pods;
  SliceTable slices;
};

class StoreProvider final : public Provider {
 public:
  explicit StoreProvider(const ProviderOptions& options)
      : store_(options.store),
        mesh_spec_(options.mesh_spec),
        log_(options.log),
        metrics_(options.metrics) {
    // Subscribe before listing: changes meanwhile are notified and wait for the mutex.
    std::lock_guard lock(mutex_);
    store_subscription_ =
        store_.subscribe([this](const std::vector<ObjectKey>& keys) { on_store_change(keys); });
    mesh_subscription_ =
        mesh_spec_.subscribe([this](const std::vector<ObjectKey>& keys) { on_mesh_change(keys); });
    const bool synced = sources_synced();
    News news;
    read_namespaces(news);
    update(synced, news);
  }

  ~StoreProvider() override {
    mesh_subscription_.reset();
    store_subscription_.reset();
  }

  std::string id() const override { return "kubernetes"; }

  bool has_synced() const override {
    std::lock_guard lock(mutex_);
    return synced_;
  }

  bool healthy() const override {
    std::lock_guard lock(mutex_);
    return healthy_;
  }

  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    std::lock_guard lock(mutex_);
    const auto tables = namespaces_.find(service.ns);
    if (tables == namespaces_.end()) return std::nullopt;
    return tables->second.slices.endpoints(service.name);
  }

  Subscription subscribe(
      std::function<void(const std::vector<ServiceName>& changed)> on_change) override {
    return services_changed_.subscribe(std::move(on_change));
  }

  std::vector<Workload> list_workloads() const override {
    std::lock_guard lock(mutex_);
    std::vector<Workload> out;
    for (const auto& [ns, tables] : namespaces_)
      for (const auto& [name, workload] : tables.pods.workloads()) out.push_back(workload);
    return out;
  }

  std::optional<Workload> find_workload(const WorkloadName& name) const override {
    std::lock_guard lock(mutex_);
    const auto tables = namespaces_.find(name.ns);
    if (tables == namespaces_.end()) return std::nullopt;
    const auto& workloads = tables->second.pods.workloads();
    const auto at = workloads.find(name.name);
    return at == workloads.end() ? std::nullopt : std::optional(at->second);
  }

  std::vector<Problem> list_problems() const override {
    std::vector<Problem> problems;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [ns, tables] : namespaces_) {
        tables.pods.add_problems(problems);
        tables.slices.add_problems(problems);
      }
    }
    for (Problem& problem : problems)
      if (const auto object = store_.get(problem.object)) problem.locate(object->source);
    std::sort(problems.begin(), problems.end());
    return problems;
  }

  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>& changed)> on_change) override {
    return workloads_changed_.subscribe(std::move(on_change));
  }

 private:
  struct News {
    bool services_told = false;
    bool workloads_told = false;
    std::vector<ServiceName> services;
    std::vector<WorkloadName> workloads;
  };

  // Services come from the MeshSpec: without it no endpoint is complete.
  bool sources_synced() const { return store_.has_synced() && mesh_spec_.has_synced(); }

  void on_store_change(const std::vector<ObjectKey>& keys) {
    News news;
    {
      std::lock_guard lock(mutex_);
      const bool synced = sources_synced();
      for (const ObjectKey& key : keys)
        if (is_read(key.kind)) read(key, store_.get(key));
      update(synced, news);
    }
    tell(news);
  }

  void on_mesh_change(const std::vector<ObjectKey>& keys) {
    News news;
    {
      std::lock_guard lock(mutex_);
      const bool synced = sources_synced();
      bool namespaces = false;
      for (const ObjectKey& key : keys) {
        namespaces = namespaces || key.kind == kNamespaces.kind;
        if (key.kind == kServices.kind)
          read_service({key.ns, key.name}, mesh_spec_.get_service({key.ns, key.name}));
      }
      if (namespaces) read_namespaces(news);
      update(synced, news);
    }
    tell(news);
  }

  void tell(const News& news) {
    if (news.services_told) services_changed_.notify(news.services);
    if (news.workloads_told) workloads_changed_.notify(news.workloads);
  }

  // Reads an object; null: removed. Objects of namespaces outside the mesh are not kept.
  void read(const ObjectKey& key, const std::shared_ptr<const Object>& object) {
    const auto tables = namespaces_.find(key.ns);
    if (tables == namespaces_.end()) return;
    touched_.insert(key.ns);
    if (object) metrics_.add("osm_kubernetes_decoded_total", {{"kind", key.kind}}, 1);
    if (key.kind == kPods.kind) {
      tables->second.pods.set_pod(key.name, object ? decode_pod(*object) : DecodedPod());
    } else {
      tables->second.slices.set_slice(key.name,
                                      object ? std::optional(decode_slice(*object)) : std::nullopt);
    }
  }

  void read_service(const ServiceName& name, const std::shared_ptr<const Service>& service) {
    const auto tables = namespaces_.find(name.ns);
    if (tables == namespaces_.end()) return;
    touched_.insert(name.ns);
    tables->second.pods.set_service(name.name, service.get());
    tables->second.slices.set_service(name.name, service);
  }

  // Namespaces enter and leave the mesh with all their objects.
  void read_namespaces(News& news) {
    const auto now = mesh_spec_.list_namespaces();
    const std::set<std::string> monitored(now.begin(), now.end());
    for (auto at = namespaces_.begin(); at != namespaces_.end();) {
      if (monitored.contains(at->first)) {
        ++at;
        continue;
      }
      for (const ServiceName& service : at->second.slices.services())
        news.services.push_back(service);
      for (const auto& [name, workload] : at->second.pods.workloads())
        news.workloads.push_back(workload.name);
      news.workloads_told = true;  // its problems are gone, too
      touched_.erase(at->first);
      at = namespaces_.erase(at);
    }
    std::set<std::string> entered;
    for (const std::string& ns : monitored)
      if (namespaces_.try_emplace(ns, ns).second) entered.insert(ns);
    if (entered.empty()) return;
    for (const std::string_view kind : {kPods.kind, kEndpointSlices.kind})
      for (const auto& object : store_.list(kind))
        if (entered.contains(object->key.ns)) read(object->key, object);
    for (const auto& service : mesh_spec_.list_services())
      if (entered.contains(service->name.ns)) read_service(service->name, service);
  }

  void update(bool synced, News& news) {
    for (const std::string& ns : std::exchange(touched_, {})) {
      NamespaceTables& tables = namespaces_.at(ns);
      const PodTable::Changes pods = tables.pods.update();
      const SliceTable::Changes slices = tables.slices.update(tables.pods, pods);
      metrics_.add("osm_kubernetes_services_recomputed_total", {},
                   static_cast<double>(slices.recomputed));
      news.services.insert(news.services.end(), slices.services.begin(), slices.services.end());
      news.workloads.insert(news.workloads.end(), pods.workloads.begin(), pods.workloads.end());
      news.workloads_told |= pods.problems || slices.problems;
    }
    const bool healthy = store_is_reachable();
    // Once synced, a provider stays synced; a later outage of a source shows in healthy().
    news.services_told = !news.services.empty() || (synced && !synced_) || healthy != healthy_;
    news.workloads_told |= !news.workloads.empty();
    if (synced && !synced_) log_.info("pods and their endpoints read");
    synced_ = synced_ || synced;
    healthy_ = healthy;
  }

  bool store_is_reachable() const {
    const auto problems = store_.list_problems();
    return std::none_of(problems.begin(), problems.end(), [](const Problem& problem) {
      return problem.code == ErrorCode::kUnavailable ||
             problem.code == ErrorCode::kUnreadableSource;
    });
  }

  ObjectStore& store_;
  MeshSpec& mesh_spec_;
  LogSink& log_;
  MetricsSink& metrics_;

  mutable std::mutex mutex_;
  std::map<std::string, NamespaceTables> namespaces_;  // namespaces of the mesh
  std::set<std::string> touched_;                      // namespaces with something to update
  bool synced_ = false;
  bool healthy_ = true;

  Notifier<const std::vector<ServiceName>&> services_changed_;
  Notifier<const std::vector<WorkloadName>&> workloads_changed_;
  Subscription store_subscription_;
  Subscription mesh_subscription_;
};

}  // namespace

std::unique_ptr<Provider> make_provider(const ProviderOptions& options) {
  return std::make_unique<StoreProvider>(options);
}

}  // namespace osm::inline v1::kubernetes
