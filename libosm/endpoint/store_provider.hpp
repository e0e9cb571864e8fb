// The part that providers over an ObjectStore share: subscriptions, namespaces that enter and leave
// the mesh, and announcements.
//
// A provider keeps one Table per namespace of the mesh, as plain data:
// - set_service() sets a Service; null removes it.
// - update() recomputes everything that the changes since the last call touch: TableChanges.
// - services() are the ServiceStates, workloads() the workloads by name.
// - add_problems() adds problems besides those of services(), without path and line, in any order.
// - With a ResourceResolver: resources() are the ids that it names, and touch_resources() hears of
//   changed answers.
// - With DrainedMachines: touch_machine() hears that a machine was drained or taken back.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/maps.hpp"
#include "endpoint/service_states.hpp"
#include "endpoint/source_addresses.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/notifier.hpp"
#include "osm/object_store.hpp"
#include "osm/providers/drained_machines.hpp"
#include "osm/providers/resource_resolver.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1::endpoint {

template <class Table>
struct StoreProviderOptions {
  std::string id;
  std::vector<GroupKind> kinds;  // kinds of objects that it reads
  ObjectStore& store;
  MeshSpec& mesh_spec;
  LogSink& log;
  MetricsSink& metrics;
  const char* synced_message;  // logged once
  Counter recomputed_metric;   // counts recomputed Services
  std::function<Table(const std::string& ns)> make_table;
  // Puts an object into the table of its namespace; null: it is gone.
  std::function<void(Table& table, const ObjectKey& key, const Object* object)> read;
  // Adds problems that do not belong to one table, in any order. May be empty.
  std::function<void(const std::map<std::string, Table>& tables, const SourceAddresses& sources,
                     std::vector<Problem>& out)>
      add_problems{};
  // For the source Services of IngressBackends: the kinds of objects that such a table reads.
  std::vector<GroupKind> source_kinds{};
  SourceAddresses::MakeTable make_sources{};
  ResourceResolver* resolver = nullptr;  // null: no table names resources
  DrainedMachines* drained = nullptr;    // null: no machine is drained
};

// `Interface` is an EndpointsProvider and a WorkloadProvider.
template <class Interface, class Table>
class StoreProvider final : public Interface {
 public:
  explicit StoreProvider(StoreProviderOptions<Table> options)
      : options_(std::move(options)),
        sources_(options_.store, options_.source_kinds, options_.make_sources) {
    // Subscribe before listing, so that no change is missed.
    store_subscription_ =
        options_.store.subscribe([this](const std::vector<ObjectKey>& keys) { on_objects(keys); });
    mesh_subscription_ =
        options_.mesh_spec.subscribe([this](const SpecChange& change) { on_mesh(change.keys); });
    if (options_.resolver)
      resolver_subscription_ = options_.resolver->subscribe(
          [this](const std::set<std::string>& ids) { on_resolved(ids); });
    if (options_.drained)
      drained_subscription_ = options_.drained->subscribe(
          [this](const std::vector<WorkloadName>& machines) { on_drained(machines); });
    change([this](News& news) {
      store_synced_ = options_.store.has_synced();
      mesh_synced_ = options_.mesh_spec.has_synced();
      read_namespaces(news);
      sources_.follow(source_services(options_.mesh_spec.list_policies()));
    });
  }

  std::string id() const override { return options_.id; }

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
    const Table* table = find_in(tables_, service.ns);
    return table ? table->services().endpoints(service.name) : std::nullopt;
  }

  bool served_outside(const ServiceName& service) const override {
    std::lock_guard lock(mutex_);
    const Table* table = find_in(tables_, service.ns);
    return table && table->services().served_outside(service.name);
  }

  std::vector<std::string> list_source_addresses(const ServiceName& service) const override {
    std::lock_guard lock(mutex_);
    return sources_.addresses_of(service);
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
    const Table* table = find_in(tables_, name.ns);
    const Workload* workload = table ? find_in(table->workloads(), name.name) : nullptr;
    return workload ? std::optional(*workload) : std::nullopt;
  }

  std::vector<Problem> list_problems() const override {
    std::vector<Problem> problems;
    {
      std::lock_guard lock(mutex_);
      problems = shared_problems_;
      for (const auto& [ns, table] : tables_) {
        table.services().add_problems(problems);
        table.add_problems(problems);
      }
    }
    // Lines move without a change of the object; the store knows the present place.
    for (Problem& problem : problems)
      if (const auto object = options_.store.get(problem.object)) problem.locate(object->source);
    std::sort(problems.begin(), problems.end());
    return problems;
  }

  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>& changed)> on_change) override {
    return workloads_changed_.subscribe(std::move(on_change));
  }

 private:
  static constexpr bool kHasResources = requires(Table& table) { table.resources(); };

  struct News {
    bool services_told = false;
    bool workloads_told = false;
    std::vector<ServiceName> services;
    std::vector<WorkloadName> workloads;
  };

  bool is_read(const ObjectKey& key) const {
    return std::any_of(options_.kinds.begin(), options_.kinds.end(),
                       [&](const GroupKind& kind) { return key.is(kind); });
  }

  void on_objects(const std::vector<ObjectKey>& keys) {
    change([&](News&) {
      store_synced_ = options_.store.has_synced();
      for (const ObjectKey& key : keys) {
        if (is_read(key)) read(key, options_.store.get(key));
        sources_.read(key);
      }
    });
  }

  void on_mesh(const std::vector<ObjectKey>& keys) {
    change([&](News& news) {
      mesh_synced_ = options_.mesh_spec.has_synced();
      bool namespaces = false;
      bool ingress = false;
      for (const ObjectKey& key : keys) {
        namespaces |= key.is(kinds::kNamespace);
        ingress |= key.is(kinds::kIngressBackend);
        const ServiceName name{key.ns, key.name};
        if (key.is(kinds::kService)) read_service(name, options_.mesh_spec.get_service(name));
      }
      if (namespaces) read_namespaces(news);
      if (ingress) sources_.follow(source_services(options_.mesh_spec.list_policies()));
    });
  }

  void on_resolved(const std::set<std::string>& ids) {
    if constexpr (kHasResources) {
      change([&](News&) {
        for (auto& [ns, table] : tables_)
          if (table.touch_resources(ids)) touched_.insert(ns);
        if (!ids.empty()) sources_.touch_all();
      });
    }
  }

  void on_drained(const std::vector<WorkloadName>& machines) {
    if constexpr (requires(Table& table) { table.touch_machine(std::string()); }) {
      change([&](News&) {
        for (const WorkloadName& machine : machines)
          if (Table* table = touch(machine.ns)) table->touch_machine(machine.name);
      });
    }
  }

  // Tells the resolver which resources are named now.
  void follow_resources() {
    if constexpr (kHasResources) {
      std::set<std::string> ids = sources_.resources();
      for (const auto& [ns, table] : tables_)
        for (const auto& [id, machines] : table.resources()) ids.insert(id);
      if (std::exchange(followed_, ids) != ids) options_.resolver->follow(std::move(ids));
    }
  }

  // Runs `read` under the lock, and announces its effects without.
  template <class Read>
  void change(const Read& read) {
    News news;
    {
      std::lock_guard lock(mutex_);
      read(news);
      update(news);
    }
    if (news.services_told) services_changed_.notify(news.services);
    if (news.workloads_told) workloads_changed_.notify(news.workloads);
  }

  // The table of a namespace, which is updated later; null: it is outside the mesh.
  Table* touch(const std::string& ns) {
    Table* table = find_in(tables_, ns);
    if (table) touched_.insert(ns);
    return table;
  }

  void read(const ObjectKey& key, const std::shared_ptr<const Object>& object) {
    if (Table* table = touch(key.ns)) options_.read(*table, key, object.get());
  }

  void read_service(const ServiceName& name, const std::shared_ptr<const Service>& service) {
    if (Table* table = touch(name.ns)) table->set_service(name.name, service);
  }

  // Namespaces enter and leave the mesh with all their objects.
  void read_namespaces(News& news) {
    const auto now = options_.mesh_spec.list_namespaces();
    const std::set<std::string> monitored(now.begin(), now.end());
    std::erase_if(tables_, [&](const auto& entry) {
      const auto& [ns, table] = entry;
      if (monitored.contains(ns)) return false;
      const auto services = table.services().services();
      news.services.insert(news.services.end(), services.begin(), services.end());
      for (const auto& [name, workload] : table.workloads())
        news.workloads.push_back(workload.name);
      news.workloads_told = true;  // its problems are gone, too
      touched_.erase(ns);
      return true;
    });
    std::set<std::string> entered;
    for (const std::string& ns : monitored)
      if (!tables_.contains(ns)) {
        tables_.emplace(ns, options_.make_table(ns));
        entered.insert(ns);
      }
    if (entered.empty()) return;
    for (const GroupKind& kind : options_.kinds)
      for (const auto& object : options_.store.list(kind))
        if (entered.contains(object->key.ns)) read(object->key, object);
    for (const auto& service : options_.mesh_spec.list_services())
      if (entered.contains(service->name.ns)) read_service(service->name, service);
  }

  void update(News& news) {
    if (options_.resolver) follow_resources();
    for (const std::string& ns : std::exchange(touched_, {})) {
      const TableChanges changes = tables_.at(ns).update();
      options_.metrics.add(options_.recomputed_metric, {}, changes.recomputed);
      news.services.insert(news.services.end(), changes.services.begin(), changes.services.end());
      news.workloads.insert(news.workloads.end(), changes.workloads.begin(),
                            changes.workloads.end());
      news.workloads_told |= changes.problems;
    }
    sources_.update(news.services);
    if (options_.add_problems) {
      std::vector<Problem> problems;
      options_.add_problems(tables_, sources_, problems);
      news.workloads_told |= problems != shared_problems_;
      shared_problems_ = std::move(problems);
    }
    const bool healthy =
        store_is_reachable() && (!options_.resolver || options_.resolver->healthy());
    // Services come from the MeshSpec: without it no endpoint is complete.
    const bool synced = store_synced_ && mesh_synced_ &&
                        (!options_.resolver || options_.resolver->has_synced()) &&
                        (!options_.drained || options_.drained->has_synced());
    // Once synced, a provider stays synced; a later outage of a source shows in healthy().
    news.services_told = !news.services.empty() || (synced && !synced_) || healthy != healthy_;
    news.workloads_told |= !news.workloads.empty();
    if (synced && !synced_) options_.log.info(options_.synced_message);
    synced_ = synced_ || synced;
    healthy_ = healthy;
  }

  bool store_is_reachable() const {
    const auto problems = options_.store.list_problems();
    return std::none_of(problems.begin(), problems.end(), [](const Problem& problem) {
      return problem.code == ErrorCode::kUnavailable ||
             problem.code == ErrorCode::kUnreadableSource;
    });
  }

  const StoreProviderOptions<Table> options_;

  mutable std::mutex mutex_;
  std::map<std::string, Table> tables_;  // of the namespaces of the mesh
  std::set<std::string> touched_;        // namespaces with something to update
  SourceAddresses sources_;
  std::set<std::string> followed_;  // by the resolver
  std::vector<Problem> shared_problems_;
  // As of the last call of each: it has synced before it has told all, and another subscriber may
  // hear of it first.
  bool store_synced_ = false;
  bool mesh_synced_ = false;
  bool synced_ = false;
  bool healthy_ = true;

  Notifier<const std::vector<ServiceName>&> services_changed_;
  Notifier<const std::vector<WorkloadName>&> workloads_changed_;
  // Last: they end first.
  Subscription store_subscription_;
  Subscription mesh_subscription_;
  Subscription resolver_subscription_;
  Subscription drained_subscription_;
};

}  // namespace osm::inline v1::endpoint
