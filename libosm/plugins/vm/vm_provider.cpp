#include "osm/spec/vm_provider.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "osm/notifier.hpp"
#include "vm/machine_table.hpp"

namespace osm::inline v1::vm {
namespace {

class StoreVmProvider final : public VmProvider {
 public:
  explicit StoreVmProvider(const VmProviderOptions& options)
      : store_(options.store),
        mesh_spec_(options.mesh_spec),
        trust_domain_(options.trust_domain),
        log_(options.log),
        metrics_(options.metrics) {
    // Subscribe before listing: changes meanwhile are notified and wait for the mutex.
    std::lock_guard lock(mutex_);
    store_subscription_ =
        store_.subscribe([this](const std::vector<ObjectKey>& keys) { on_store_change(keys); });
    mesh_subscription_ =
        mesh_spec_.subscribe([this](const std::vector<ObjectKey>& keys) { on_mesh_change(keys); });
    const bool synced = sources_synced();
    for (const auto& object : store_.list(kKind)) read_machine(object->key);
    read_namespaces();
    update(synced);
  }

  ~StoreVmProvider() override {
    mesh_subscription_.reset();
    store_subscription_.reset();
  }

  std::string id() const override { return "vm"; }

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
    const auto table = tables_.find(service.ns);
    if (table == tables_.end()) return std::nullopt;
    return table->second.endpoints(service.name);
  }

  Subscription subscribe(
      std::function<void(const std::vector<ServiceName>& changed)> on_change) override {
    return services_changed_.subscribe(std::move(on_change));
  }

  std::vector<Workload> list_workloads() const override {
    std::lock_guard lock(mutex_);
    std::vector<Workload> out;
    for (const auto& [ns, table] : tables_)
      for (const auto& [name, workload] : table.workloads()) out.push_back(workload);
    return out;
  }

  std::optional<Workload> find_workload(const WorkloadName& name) const override {
    std::lock_guard lock(mutex_);
    const auto table = tables_.find(name.ns);
    if (table == tables_.end()) return std::nullopt;
    const auto& workloads = table->second.workloads();
    const auto at = workloads.find(name.name);
    return at == workloads.end() ? std::nullopt : std::optional(at->second);
  }

  std::vector<Problem> list_problems() const override {
    std::vector<Problem> problems;
    {
      std::lock_guard lock(mutex_);
      problems = problems_;
    }
    // Lines move without a change of the object; the store knows the present place.
    for (Problem& problem : problems) {
      if (const auto object = store_.get(problem.object)) problem.locate(object->source);
    }
    std::sort(problems.begin(), problems.end());
    return problems;
  }

  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>& changed)> on_change) override {
    return workloads_changed_.subscribe(std::move(on_change));
  }

 private:
  struct Known {
    std::string resource_version;
    std::shared_ptr<const VirtualMachine> machine;  // null: invalid
    std::vector<Problem> problems;
  };
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
        if (key.kind == kKind) read_machine(key);
      news = update(synced);
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
        namespaces = namespaces || key.kind == "Namespace";
        if (key.kind == "Service" && tables_.contains(key.ns))
          tables_.at(key.ns).set_service(key.name, mesh_spec_.get_service({key.ns, key.name}));
      }
      if (namespaces) read_namespaces();
      news = update(synced);
    }
    tell(news);
  }

  void tell(const News& news) {
    if (news.services_told) services_changed_.notify(news.services);
    if (news.workloads_told) workloads_changed_.notify(news.workloads);
  }

  void read_machine(const ObjectKey& key) {
    const auto object = store_.get(key);
    if (!object) {
      known_.erase(key);
    } else {
      Known& known = known_[key];
      if (known.resource_version == object->resource_version && !known.resource_version.empty())
        return;
      auto decoded = decode_virtual_machine(*object);
      metrics_.add("osm_vm_decoded_total", {}, 1);
      known = {object->resource_version,
               decoded.value ? std::make_shared<const VirtualMachine>(*std::move(decoded.value))
                             : nullptr,
               std::move(decoded.problems)};
    }
    if (const auto table = tables_.find(key.ns); table != tables_.end())
      table->second.set_machine(key.name, object ? known_.at(key).machine : nullptr);
  }

  // Namespaces enter and leave the mesh with all their objects.
  void read_namespaces() {
    const auto now = mesh_spec_.list_namespaces();
    const std::set<std::string> monitored(now.begin(), now.end());
    std::set<std::string> entered;
    for (const std::string& ns : monitored)
      if (tables_.try_emplace(ns, trust_domain_, ns).second) entered.insert(ns);
    for (const auto& [key, known] : known_)
      if (entered.contains(key.ns)) tables_.at(key.ns).set_machine(key.name, known.machine);
    for (const auto& service : mesh_spec_.list_services())
      if (entered.contains(service->name.ns))
        tables_.at(service->name.ns).set_service(service->name.name, service);
    for (auto& [ns, table] : tables_)
      if (!monitored.contains(ns)) table.clear();
  }

  News update(bool synced) {
    News news;
    for (auto table = tables_.begin(); table != tables_.end();) {
      MachineTable::Changes changes = table->second.update();
      metrics_.add("osm_vm_services_recomputed_total", {}, static_cast<double>(changes.recomputed));
      news.services.insert(news.services.end(), changes.services.begin(), changes.services.end());
      news.workloads.insert(news.workloads.end(), changes.workloads.begin(),
                            changes.workloads.end());
      table = table->second.cleared() ? tables_.erase(table) : std::next(table);
    }
    std::vector<Problem> problems = collect_problems();
    news.workloads_told = !news.workloads.empty() || problems != problems_;
    problems_ = std::move(problems);
    const bool healthy = store_is_healthy();
    // Once synced, a provider stays synced; a later outage of a source shows in healthy().
    news.services_told = !news.services.empty() || (synced && !synced_) || healthy != healthy_;
    if (synced && !synced_) log_.info("virtual machines read");
    synced_ = synced_ || synced;
    healthy_ = healthy;
    return news;
  }

  bool store_is_healthy() const {
    const auto problems = store_.list_problems();
    return std::none_of(problems.begin(), problems.end(), [](const Problem& problem) {
      return problem.code == ErrorCode::kUnreadableSource ||
             problem.code == ErrorCode::kUnavailable;
    });
  }

  std::vector<Problem> collect_problems() const {
    std::vector<Problem> problems;
    for (const auto& [key, known] : known_) {
      if (!tables_.contains(key.ns)) {
        problems.push_back({ErrorCode::kDanglingReference, key, "", 0, "metadata.namespace",
                            "namespace " + key.ns +
                                " is not in the mesh, so this machine is ignored; label its "
                                "Namespace object with openservicemesh.io/monitored-by"});
        continue;
      }
      problems.insert(problems.end(), known.problems.begin(), known.problems.end());
    }
    std::map<std::string, WorkloadName> owners;
    for (const auto& [ns, table] : tables_) {
      table.add_problems(problems);
      for (const auto& [name, workload] : table.workloads()) {
        const auto [owner, first] = owners.emplace(workload.address, workload.name);
        if (first) continue;
        problems.push_back({ErrorCode::kConflictingAddress,
                            {kKind, ns, name},
                            "",
                            0,
                            "spec.address",
                            workload.address + " is also the address of VirtualMachine " +
                                owner->second.str() + "; give each machine its own"});
      }
    }
    std::sort(problems.begin(), problems.end());
    return problems;
  }

  ObjectStore& store_;
  MeshSpec& mesh_spec_;
  const TrustDomain trust_domain_;
  LogSink& log_;
  MetricsSink& metrics_;

  mutable std::mutex mutex_;
  std::map<ObjectKey, Known> known_;            // every VirtualMachine, in the mesh or not
  std::map<std::string, MachineTable> tables_;  // tables of monitored namespaces
  std::vector<Problem> problems_;
  bool synced_ = false;
  bool healthy_ = true;

  Notifier<const std::vector<ServiceName>&> services_changed_;
  Notifier<const std::vector<WorkloadName>&> workloads_changed_;
  Subscription store_subscription_;
  Subscription mesh_subscription_;
};

}  // namespace

std::unique_ptr<VmProvider> make_vm_provider(const VmProviderOptions& options) {
  return std::make_unique<StoreVmProvider>(options);
}

}  // namespace osm::inline v1::vm
