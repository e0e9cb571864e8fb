#include "osm/testing/memory_mesh_spec.hpp"

#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "model/spec_objects.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::testing {
namespace {

template <class T>
using NameOf = std::decay_t<decltype(T::name)>;
template <class T>
using Objects = std::map<NameOf<T>, std::shared_ptr<const T>>;

constexpr const char* kOsmNamespace = "osm-system";

template <class T>
ObjectKey key_of(const T& object) {
  return model::key_of(object);
}
ObjectKey key_of(const MeshRootCertificate& root) {
  return {kinds::kMeshRootCertificate, kOsmNamespace, root.name};
}

template <class T>
SharedList<T> values(const Objects<T>& objects) {
  SharedList<T> out;
  for (const auto& [name, object] : objects) out.push_back(object);
  return out;
}

}  // namespace

struct MemoryMeshSpec::State {
  mutable std::mutex mutex;
  std::tuple<Objects<Service>, Objects<smi::TrafficSplit>, Objects<smi::HttpRouteGroup>,
             Objects<smi::TcpRoute>, Objects<smi::TrafficTarget>, Objects<MeshRootCertificate>>
      objects;
  SharedList<Policy> policies;
  std::set<ServiceAccount> accounts;
  std::set<std::string> namespaces;
  MeshConfig config;
  bool synced = true;
  std::vector<Problem> problems;
  std::map<ObjectKey, ObjectSource> sources;
  Notifier<const std::vector<ObjectKey>&> notifier;

  template <class T>
  Objects<T>& of() {
    return std::get<Objects<T>>(objects);
  }
  template <class T>
  SharedList<T> list() {
    std::lock_guard lock(mutex);
    return values<T>(of<T>());
  }
  bool erase(const ObjectKey& key) {
    bool erased = false;
    std::apply(
        [&](auto&... kind) {
          ((erased = erased || std::erase_if(kind,
                                             [&](const auto& entry) {
                                               return key_of(*entry.second) == key;
                                             }) > 0),
           ...);
        },
        objects);
    if (key.is(kinds::kServiceAccount)) return accounts.erase({key.ns, key.name}) > 0;
    if (key.is(kinds::kNamespace)) return namespaces.erase(key.name) > 0;
    return erased || std::erase_if(policies, [&](const auto& one) { return one->key == key; }) > 0;
  }
};

MemoryMeshSpec::MemoryMeshSpec() : state_(std::make_unique<State>()) {}
MemoryMeshSpec::~MemoryMeshSpec() = default;

void MemoryMeshSpec::notify(std::vector<ObjectKey> changed) { state_->notifier.notify(changed); }

template <class T>
void MemoryMeshSpec::put_object(const T& object) {
  std::vector<ObjectKey> changed;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->namespaces.insert(object.name.ns).second)
      changed.push_back({kinds::kNamespace, "", object.name.ns});
    auto& slot = state_->of<T>()[object.name];
    if (!slot || !(*slot == object)) {
      slot = std::make_shared<const T>(object);
      changed.push_back(key_of(object));
    }
  }
  if (!changed.empty()) notify(std::move(changed));
}

void MemoryMeshSpec::put(const Service& service) { put_object(service); }
void MemoryMeshSpec::put(const smi::TrafficSplit& split) { put_object(split); }
void MemoryMeshSpec::put(const smi::HttpRouteGroup& group) { put_object(group); }
void MemoryMeshSpec::put(const smi::TcpRoute& route) { put_object(route); }
void MemoryMeshSpec::put(const smi::TrafficTarget& target) { put_object(target); }

void MemoryMeshSpec::put(const Policy& policy) {
  {
    std::lock_guard lock(state_->mutex);
    auto& list = state_->policies;
    const auto at = model::place_of(list, policy.key);
    const bool held = at != list.end() && (*at)->key == policy.key;
    if (held && **at == policy) return;
    auto value = std::make_shared<const Policy>(policy);
    if (held) {
      *at = std::move(value);
    } else {
      list.insert(at, std::move(value));
    }
  }
  notify({policy.key});
}

void MemoryMeshSpec::put(const MeshRootCertificate& root) {
  {
    std::lock_guard lock(state_->mutex);
    auto& slot = state_->of<MeshRootCertificate>()[root.name];
    if (slot && *slot == root) return;
    slot = std::make_shared<const MeshRootCertificate>(root);
  }
  notify({{kinds::kMeshRootCertificate, kOsmNamespace, root.name}});
}

void MemoryMeshSpec::put_service_account(const ServiceAccount& account) {
  std::vector<ObjectKey> changed;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->namespaces.insert(account.ns).second)
      changed.push_back({kinds::kNamespace, "", account.ns});
    if (state_->accounts.insert(account).second)
      changed.push_back({kinds::kServiceAccount, account.ns, account.name});
  }
  if (!changed.empty()) notify(std::move(changed));
}

void MemoryMeshSpec::put_namespace(const std::string& ns) {
  {
    std::lock_guard lock(state_->mutex);
    if (!state_->namespaces.insert(ns).second) return;
  }
  notify({{kinds::kNamespace, "", ns}});
}

void MemoryMeshSpec::set_mesh_config(const MeshConfig& config) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->config == config) return;
    state_->config = config;
  }
  notify({{kinds::kMeshConfig, kOsmNamespace, "osm-mesh-config"}});
}

void MemoryMeshSpec::remove(const ObjectKey& key) {
  {
    std::lock_guard lock(state_->mutex);
    if (!state_->erase(key)) return;
  }
  notify({key});
}

void MemoryMeshSpec::set_synced(bool synced) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->synced == synced) return;
    state_->synced = synced;
  }
  notify({});
}

void MemoryMeshSpec::set_problems(std::vector<Problem> problems) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->problems == problems) return;
    state_->problems = std::move(problems);
  }
  notify({});
}

void MemoryMeshSpec::set_source(const ObjectKey& key, ObjectSource source) {
  std::lock_guard lock(state_->mutex);
  state_->sources[key] = std::move(source);
}

SharedList<smi::TrafficSplit> MemoryMeshSpec::list_traffic_splits() const {
  return state_->list<smi::TrafficSplit>();
}
SharedList<smi::HttpRouteGroup> MemoryMeshSpec::list_http_traffic_specs() const {
  return state_->list<smi::HttpRouteGroup>();
}
SharedList<smi::TcpRoute> MemoryMeshSpec::list_tcp_traffic_specs() const {
  return state_->list<smi::TcpRoute>();
}
SharedList<smi::TrafficTarget> MemoryMeshSpec::list_traffic_targets() const {
  return state_->list<smi::TrafficTarget>();
}
SharedList<Policy> MemoryMeshSpec::list_policies() const {
  std::lock_guard lock(state_->mutex);
  return state_->policies;
}
SharedList<Service> MemoryMeshSpec::list_services() const { return state_->list<Service>(); }

std::vector<ServiceAccount> MemoryMeshSpec::list_service_accounts() const {
  std::set<ServiceAccount> named;
  for (const auto& target : list_traffic_targets()) {
    named.insert(target->destination);
    named.insert(target->sources.begin(), target->sources.end());
  }
  return {named.begin(), named.end()};
}

std::shared_ptr<const Service> MemoryMeshSpec::get_service(const ServiceName& name) const {
  std::lock_guard lock(state_->mutex);
  const auto& services = state_->of<Service>();
  const auto at = services.find(name);
  return at == services.end() ? nullptr : at->second;
}

std::vector<ServiceAccount> MemoryMeshSpec::list_all_service_accounts() const {
  std::lock_guard lock(state_->mutex);
  return {state_->accounts.begin(), state_->accounts.end()};
}

std::vector<std::string> MemoryMeshSpec::list_namespaces() const {
  std::lock_guard lock(state_->mutex);
  return {state_->namespaces.begin(), state_->namespaces.end()};
}

MeshConfig MemoryMeshSpec::get_mesh_config() const {
  std::lock_guard lock(state_->mutex);
  return state_->config;
}

SharedList<MeshRootCertificate> MemoryMeshSpec::list_root_certificates() const {
  return state_->list<MeshRootCertificate>();
}

bool MemoryMeshSpec::has_synced() const {
  std::lock_guard lock(state_->mutex);
  return state_->synced;
}

std::vector<Problem> MemoryMeshSpec::list_problems() const {
  std::lock_guard lock(state_->mutex);
  return state_->problems;
}

ObjectSource MemoryMeshSpec::source_of(const ObjectKey& key) const {
  std::lock_guard lock(state_->mutex);
  const auto at = state_->sources.find(key);
  return at == state_->sources.end() ? ObjectSource{} : at->second;
}

Subscription MemoryMeshSpec::subscribe(
    std::function<void(const std::vector<ObjectKey>& changed)> on_change) {
  return state_->notifier.subscribe(std::move(on_change));
}

}  // namespace osm::inline v1::testing
