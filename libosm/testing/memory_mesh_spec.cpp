#include "osm/testing/memory_mesh_spec.hpp"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/maps.hpp"
#include "model/spec_objects.hpp"
#include "testing/published.hpp"

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

ObjectKey key_of_namespace(const std::string& ns) { return {kinds::kNamespace, "", ns}; }

// Result: true if that changed the slot.
template <class T>
bool put_into(std::shared_ptr<const T>& slot, const T& object) {
  if (slot && *slot == object) return false;
  slot = std::make_shared<const T>(object);
  return true;
}

}  // namespace

struct MemoryMeshSpec::State {
  struct Content {
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

    template <class T>
    Objects<T>& of() {
      return std::get<Objects<T>>(objects);
    }

    bool erase(const ObjectKey& key) {
      if (key.is(kinds::kServiceAccount)) return accounts.erase({key.ns, key.name}) > 0;
      if (key.is(kinds::kNamespace)) return namespaces.erase(key.name) > 0;
      const auto erase_from = [&](auto& objects_of_kind) {
        return std::erase_if(objects_of_kind,
                             [&](const auto& entry) { return key_of(*entry.second) == key; }) > 0;
      };
      return std::apply([&](auto&... kind) { return (erase_from(kind) || ...); }, objects) ||
             std::erase_if(policies, [&](const auto& one) { return one->key == key; }) > 0;
    }
  };
  Published<Content, ObjectKey> now;

  template <class T>
  SharedList<T> list() const {
    return now.read([](const Content& content) {
      SharedList<T> out;
      for (const auto& [name, object] : std::get<Objects<T>>(content.objects))
        out.push_back(object);
      return out;
    });
  }
};

MemoryMeshSpec::MemoryMeshSpec() : state_(std::make_unique<State>()) {}
MemoryMeshSpec::~MemoryMeshSpec() = default;

template <class T>
void MemoryMeshSpec::put_object(const T& object) {
  state_->now.change([&](State::Content& content) {
    std::vector<ObjectKey> changed;
    if (content.namespaces.insert(object.name.ns).second)
      changed.push_back(key_of_namespace(object.name.ns));
    if (put_into(content.of<T>()[object.name], object)) changed.push_back(key_of(object));
    return changed;
  });
}

void MemoryMeshSpec::put(const Service& service) { put_object(service); }
void MemoryMeshSpec::put(const smi::TrafficSplit& split) { put_object(split); }
void MemoryMeshSpec::put(const smi::HttpRouteGroup& group) { put_object(group); }
void MemoryMeshSpec::put(const smi::TcpRoute& route) { put_object(route); }
void MemoryMeshSpec::put(const smi::TrafficTarget& target) { put_object(target); }

void MemoryMeshSpec::put(const Policy& policy) {
  state_->now.change(policy.key, [&](State::Content& content) {
    auto at = model::place_of(content.policies, policy.key);
    if (at == content.policies.end() || (*at)->key != policy.key)
      at = content.policies.insert(at, nullptr);
    return put_into(*at, policy);
  });
}

void MemoryMeshSpec::put(const MeshRootCertificate& root) {
  state_->now.change(key_of(root), [&](State::Content& content) {
    return put_into(content.of<MeshRootCertificate>()[root.name], root);
  });
}

void MemoryMeshSpec::put_service_account(const ServiceAccount& account) {
  state_->now.change([&](State::Content& content) {
    std::vector<ObjectKey> changed;
    if (content.namespaces.insert(account.ns).second)
      changed.push_back(key_of_namespace(account.ns));
    if (content.accounts.insert(account).second)
      changed.push_back({kinds::kServiceAccount, account.ns, account.name});
    return changed;
  });
}

void MemoryMeshSpec::put_namespace(const std::string& ns) {
  state_->now.change(key_of_namespace(ns),
                     [&](State::Content& content) { return content.namespaces.insert(ns).second; });
}

void MemoryMeshSpec::set_mesh_config(const MeshConfig& config) {
  state_->now.set(&State::Content::config, config,
                  {{kinds::kMeshConfig, kOsmNamespace, "osm-mesh-config"}});
}

void MemoryMeshSpec::remove(const ObjectKey& key) {
  state_->now.change(key, [&](State::Content& content) { return content.erase(key); });
}

void MemoryMeshSpec::set_synced(bool synced) { state_->now.set(&State::Content::synced, synced); }

void MemoryMeshSpec::set_problems(std::vector<Problem> problems) {
  state_->now.set(&State::Content::problems, std::move(problems));
}

void MemoryMeshSpec::set_source(const ObjectKey& key, ObjectSource source) {
  state_->now.change([&](State::Content& content) {
    content.sources[key] = std::move(source);
    return std::vector<ObjectKey>();
  });
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
std::string MemoryMeshSpec::control_plane_namespace() const { return kOsmNamespace; }

SharedList<Policy> MemoryMeshSpec::list_policies() const {
  return state_->now.read(&State::Content::policies);
}
SharedList<Service> MemoryMeshSpec::list_services() const { return state_->list<Service>(); }
SharedList<MeshRootCertificate> MemoryMeshSpec::list_root_certificates() const {
  return state_->list<MeshRootCertificate>();
}

std::vector<ServiceAccount> MemoryMeshSpec::list_service_accounts() const {
  std::set<ServiceAccount> named;
  for (const auto& target : list_traffic_targets()) {
    named.insert(target->destination);
    named.insert(target->sources.begin(), target->sources.end());
  }
  return {named.begin(), named.end()};
}

std::shared_ptr<const Service> MemoryMeshSpec::get_service(const ServiceName& name) const {
  return state_->now.read([&](const State::Content& content) {
    const auto* found = find_in(std::get<Objects<Service>>(content.objects), name);
    return found ? *found : nullptr;
  });
}

std::vector<ServiceAccount> MemoryMeshSpec::list_all_service_accounts() const {
  const auto accounts = state_->now.read(&State::Content::accounts);
  return {accounts.begin(), accounts.end()};
}

std::vector<std::string> MemoryMeshSpec::list_namespaces() const {
  const auto namespaces = state_->now.read(&State::Content::namespaces);
  return {namespaces.begin(), namespaces.end()};
}

MeshConfig MemoryMeshSpec::get_mesh_config() const {
  return state_->now.read(&State::Content::config);
}

bool MemoryMeshSpec::has_synced() const { return state_->now.read(&State::Content::synced); }

std::vector<Problem> MemoryMeshSpec::list_problems() const {
  return state_->now.read(&State::Content::problems);
}

std::optional<ObjectSource> MemoryMeshSpec::source_of(const ObjectKey& key) const {
  return state_->now.read([&](const State::Content& content) {
    const auto* found = find_in(content.sources, key);
    return found ? std::optional(*found) : std::nullopt;
  });
}

Subscription MemoryMeshSpec::subscribe(
    std::function<void(const std::vector<ObjectKey>& changed)> on_change) {
  return state_->now.subscribe(std::move(on_change));
}

}  // namespace osm::inline v1::testing
