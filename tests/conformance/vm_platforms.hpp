// VirtualMachines in a store: each service is a Service object, each of its endpoints a machine.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "lib/temporary_directory.hpp"
#include "memory_platform.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "spec/directory_fixture.hpp"

namespace osm::inline v1::testing {

namespace vm_platform {

// JSON, which is YAML too: strange names need its escapes.
inline std::string in_quotes(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\' || byte == 0x7f)
      out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    else
      out += c;
  }
  return out + '"';
}

// A name for a machine of `service`, whatever that is called; the same for the same address.
inline std::string machine_name(const Endpoint& endpoint, std::size_t service_hash) {
  std::string name = "vm-" + std::to_string(service_hash % 100'000) + '-' + endpoint.address;
  for (char& c : name)
    if (c == '.' || c == ':') c = '-';
  return name;
}

inline std::string machine_yaml(const ServiceName& service, const Endpoint& endpoint) {
  const std::size_t hash = std::hash<ServiceName>{}(service);
  return "{\"apiVersion\": \"workload.openservicemesh.io/v1alpha1\", \"kind\": \"VirtualMachine\", "
         "\"metadata\": {\"name\": " +
         in_quotes(machine_name(endpoint, hash)) +
         ", \"namespace\": " + in_quotes(endpoint.identity.ns) + ", \"labels\": {\"of\": \"s" +
         std::to_string(hash) + "\"}}, \"spec\": {\"address\": " + in_quotes(endpoint.address) +
         ", \"serviceAccount\": " + in_quotes(endpoint.identity.name) +
         ", \"ports\": [{\"name\": " + in_quotes("p-" + endpoint.service_port) +
         ", \"port\": " + std::to_string(number(endpoint.port)) + "}]}}\n---\n";
}

inline std::string service_yaml(const ServiceName& service,
                                const std::vector<Endpoint>& endpoints) {
  std::set<std::string> names{"http"};
  for (const Endpoint& endpoint : endpoints) names.insert(endpoint.service_port);
  std::string ports;
  for (const std::string& name : names)
    ports += (ports.empty() ? "" : ", ") + std::string("{\"name\": ") + in_quotes(name) +
             ", \"port\": " + std::to_string(80 + ports.size()) +
             ", \"targetPort\": " + in_quotes("p-" + name) + '}';
  return "{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": " +
         in_quotes(service.name) + ", \"namespace\": " + in_quotes(service.ns) +
         "}, \"spec\": {\"clusterIP\": \"None\", \"selector\": {\"of\": \"s" +
         std::to_string(std::hash<ServiceName>{}(service)) + "\"}, \"ports\": [" + ports +
         "]}}\n---\n";
}

inline std::string yaml_of(const ServiceName& service, const std::vector<Endpoint>& endpoints) {
  std::string yaml = service_yaml(service, endpoints);
  for (const Endpoint& endpoint : endpoints) yaml += machine_yaml(service, endpoint);
  return yaml;
}

// A machine of that name and UUID, behind its service.
inline std::string workload_yaml(const Workload& workload) {
  std::string of = "none";
  if (!workload.services.empty())
    of = 's' + std::to_string(std::hash<ServiceName>{}(workload.services.front()));
  return "{\"apiVersion\": \"workload.openservicemesh.io/v1alpha1\", \"kind\": \"VirtualMachine\", "
         "\"metadata\": {\"name\": " +
         in_quotes(workload.name.name) + ", \"namespace\": " + in_quotes(workload.name.ns) +
         ", \"labels\": {\"of\": " + vm_platform::in_quotes(of) +
         "}}, \"spec\": {\"address\": " + in_quotes(workload.address) +
         ", \"serviceAccount\": " + in_quotes(workload.account.name) +
         ", \"proxyUUID\": " + in_quotes(workload.proxy_id.str()) +
         ", \"ports\": [{\"name\": \"p-http\", \"port\": 8080}]}}\n---\n";
}

inline constexpr const char* kShopYaml =
    "{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"shop\", "
    "\"labels\": {\"openservicemesh.io/monitored-by\": \"osm\"}}}\n";

// The provider together with the MeshSpec it reads Services from.
class VmWithSpec final : public EndpointsProvider, public WorkloadProvider {
 public:
  VmWithSpec(ObjectStore& store, LogSink& log, MetricsSink& metrics)
      : spec_(spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics})),
        vm_(vm::make_vm_provider({store, *spec_, TrustDomain("cluster.local"), log, metrics})) {}

  std::string id() const override { return vm_->id(); }
  bool has_synced() const override { return vm_->has_synced(); }
  bool healthy() const override { return vm_->healthy(); }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    return vm_->list_endpoints_for_service(service);
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)> on_change) override {
    return vm_->subscribe(std::move(on_change));
  }
  std::vector<Workload> list_workloads() const override { return vm_->list_workloads(); }
  std::optional<Workload> find_workload(const WorkloadName& name) const override {
    return vm_->find_workload(name);
  }
  std::vector<Problem> list_problems() const override { return vm_->list_problems(); }
  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>&)> on_change) override {
    return vm_->subscribe_workloads(std::move(on_change));
  }

 private:
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<vm::VmProvider> vm_;
};

inline PlatformTraits vm_traits() { return {.zones = false, .weights = false, .health = false}; }

class VmPlatform final : public ProviderPlatform {
 public:
  PlatformTraits traits() const override {
    PlatformTraits traits = vm_traits();
    traits.workloads = true;
    return traits;
  }

  std::unique_ptr<EndpointsProvider> start(const Runtime& runtime) override {
    started_ = true;
    store_.set_synced(reachable_);
    REQUIRE(store_.put_yaml(kShopYaml).ok());
    if (reachable_) show_all();
    return std::make_unique<VmWithSpec>(store_, runtime.log, runtime.metrics);
  }
  void set_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) override {
    content_[service] = endpoints;
    if (started_ && reachable_) show(service);
  }
  void remove_service(const ServiceName& service) override {
    content_.erase(service);
    if (started_ && reachable_) hide(service, {});
  }
  void set_workload(const Workload& workload) override {
    content_.try_emplace(kServiceOfWorkloads);
    workloads_[workload.name] = workload;
    if (!started_ || !reachable_) return;
    show(kServiceOfWorkloads);
    show(workload);
  }
  void remove_workload(const WorkloadName& name) override {
    workloads_.erase(name);
    if (started_ && reachable_) hide_workloads();
  }
  void set_reachable(bool reachable) override {
    reachable_ = reachable;
    if (!started_) return;
    if (!reachable) {
      store_.set_problems({{ErrorCode::kUnreadableSource, {}, "mesh", 0, "", "is away"}});
      return;
    }
    show_all();
    store_.set_problems({});
    store_.set_synced(true);
  }

 private:
  void show_all() {
    std::vector<ServiceName> gone;
    for (const auto& [service, keys] : shown_)
      if (!content_.contains(service)) gone.push_back(service);
    for (const ServiceName& service : gone) hide(service, {});
    for (const auto& [service, endpoints] : content_) show(service);
    hide_workloads();
    for (const auto& [name, workload] : workloads_) show(workload);
  }
  void show(const Workload& workload) {
    REQUIRE(store_.put_yaml(workload_yaml(workload)).ok());
    shown_workloads_.insert(workload.name);
  }
  // Machines that the platform does not have any more.
  void hide_workloads() {
    std::erase_if(shown_workloads_, [&](const WorkloadName& name) {
      if (workloads_.contains(name)) return false;
      store_.remove({kinds::kVirtualMachine, name.ns, name.name});
      return true;
    });
  }
  void show(const ServiceName& service) {
    const auto& endpoints = content_.at(service);
    if (!store_.put_yaml(yaml_of(service, endpoints)).ok()) return;  // not even an object
    std::set<ObjectKey> keys{{kinds::kService, service.ns, service.name}};
    for (const Endpoint& endpoint : endpoints)
      keys.insert({kinds::kVirtualMachine, endpoint.identity.ns,
                   machine_name(endpoint, std::hash<ServiceName>{}(service))});
    hide(service, keys);
    shown_[service] = keys;
  }
  void hide(const ServiceName& service, const std::set<ObjectKey>& but) {
    for (const ObjectKey& key : shown_[service])
      if (!but.contains(key)) store_.remove(key);
    shown_.erase(service);
  }

  MemoryObjectStore store_;
  PlatformContent content_;
  std::map<ServiceName, std::set<ObjectKey>> shown_;
  PlatformWorkloads workloads_;
  std::set<WorkloadName> shown_workloads_;
  bool started_ = false;
  bool reachable_ = true;
};

// A directory is one provider's platform: the store comes and goes with the provider.
class DirectoryProvider final : public EndpointsProvider {
 public:
  DirectoryProvider(std::unique_ptr<ObjectStore> store, const Runtime& runtime)
      : store_(std::move(store)), vm_(*store_, runtime.log, runtime.metrics) {}

  std::string id() const override { return "directory"; }
  bool has_synced() const override { return vm_.has_synced(); }
  bool healthy() const override { return vm_.healthy(); }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    return vm_.list_endpoints_for_service(service);
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)> on_change) override {
    return vm_.subscribe(std::move(on_change));
  }

 private:
  std::unique_ptr<ObjectStore> store_;
  VmWithSpec vm_;
};

class DirectoryPlatform final : public ProviderPlatform {
 public:
  DirectoryPlatform() {
    std::filesystem::create_directory(here());
    write(directory() / "namespace.yaml", kShopYaml);
  }
  PlatformTraits traits() const override { return vm_traits(); }

  std::unique_ptr<EndpointsProvider> start(const Runtime& runtime) override {
    auto store = spec::make_directory_store(
        {.directory = here().string(), .watcher = watcher_, .runtime = runtime});
    REQUIRE(store.ok());
    executor_ = &runtime.executor;
    return std::make_unique<DirectoryProvider>(std::move(store).value(), runtime);
  }
  void set_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) override {
    write(file_of(service), yaml_of(service, endpoints));
  }
  void remove_service(const ServiceName& service) override {
    std::filesystem::remove(file_of(service));
  }
  // The directory is moved away, as when its disk is.
  void set_reachable(bool reachable) override {
    if (reachable == reachable_) return;
    reachable_ = reachable;
    std::filesystem::rename(reachable ? away() : here(), directory());
  }
  // Descriptors are watched on the executor's threads: while those are busy, nobody looks.
  void pump() override {
    if (executor_ == nullptr || std::exchange(look_posted_, true)) return;
    executor_->post([this] {
      look_posted_ = false;
      while (watcher_.look()) continue;
    });
  }

 private:
  std::filesystem::path here() const { return temporary_.path() / "mesh"; }
  std::filesystem::path away() const { return temporary_.path() / "away"; }
  std::filesystem::path directory() const { return reachable_ ? here() : away(); }
  std::filesystem::path file_of(const ServiceName& service) const {
    return directory() / (std::to_string(std::hash<ServiceName>{}(service)) + ".yaml");
  }
  // As careful writers do: complete, then renamed into place.
  void write(const std::filesystem::path& path, const std::string& text) const {
    const auto next = temporary_.path() / "next";
    std::ofstream(next, std::ios::trunc) << text;
    std::filesystem::rename(next, path);
  }

  osm::testing::TemporaryDirectory temporary_;
  spec::testing::ManualFdWatcher watcher_;
  Executor* executor_ = nullptr;
  bool look_posted_ = false;
  bool reachable_ = true;
};

}  // namespace vm_platform

inline std::unique_ptr<ProviderPlatform> make_vm_platform() {
  return std::make_unique<vm_platform::VmPlatform>();
}
inline std::unique_ptr<ProviderPlatform> make_directory_platform() {
  return std::make_unique<vm_platform::DirectoryPlatform>();
}

}  // namespace osm::inline v1::testing
