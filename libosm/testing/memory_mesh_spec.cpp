#include "osm/testing/memory_mesh_spec.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/maps.hpp"
#include "model/spec_tables.hpp"
#include "testing/published.hpp"

namespace osm::inline v1::testing {
namespace {

constexpr const char* kOsmNamespace = "osm-system";

ObjectKey key_of_namespace(const std::string& ns) { return {kinds::kNamespace, "", ns}; }

// Result: true if that changed the table.
template <class T>
bool put_into(Table<T>& table, const T& object) {
  const auto held = table.find(key_in_table(object));
  if (held && *held == object) return false;
  table = table.with(std::make_shared<const T>(object));
  return true;
}

template <class T>
bool erase_from(Table<T>& table, const typename Table<T>::Key& key) {
  const std::size_t before = table.size();
  table = table.without(key);
  return table.size() != before;
}

}  // namespace

struct MemoryMeshSpec::State {
  struct Content : SpecSnapshot {
    std::vector<Problem> problems;
    std::map<ObjectKey, ObjectSource> sources;

    Content() {
      config_key = {kinds::kMeshConfig, kOsmNamespace, "osm-mesh-config"};
      synced = true;
    }

    // Result: true if it is new.
    bool add_namespace(const std::string& ns) {
      const auto at = std::lower_bound(namespaces.begin(), namespaces.end(), ns);
      if (at != namespaces.end() && *at == ns) return false;
      namespaces.insert(at, ns);
      return true;
    }

    bool erase(const ObjectKey& key) {
      if (key.is(kinds::kNamespace)) return std::erase(namespaces, key.name) > 0;
      if (key.is(kinds::kServiceAccount)) return erase_from(accounts, {key.ns, key.name});
      if (key.is(kinds::kMeshRootCertificate))
        return key.ns == kOsmNamespace && erase_from(roots, key.name);
      bool erased = false;
      model::for_each_list([&](auto table, auto) {
        if (model::may_hold(this->*table, key))
          erased = erase_from(this->*table, model::name_in(this->*table, key));
      });
      return erased;
    }
  };
  Published<Content, ObjectKey> now;

  // Adds the object's namespace too.
  template <class T>
  void put(Table<T> SpecSnapshot::*table, const T& object) {
    const ObjectKey key = model::key_of(object);
    now.change([&](Content& content) {
      std::vector<ObjectKey> changed;
      if (content.add_namespace(key.ns)) changed.push_back(key_of_namespace(key.ns));
      if (put_into(content.*table, object)) changed.push_back(key);
      return changed;
    });
  }

  template <class T>
  SharedList<T> list(Table<T> SpecSnapshot::*table) const {
    return now.read(table).list();
  }
};

MemoryMeshSpec::MemoryMeshSpec() : state_(std::make_unique<State>()) {}
MemoryMeshSpec::~MemoryMeshSpec() = default;

void MemoryMeshSpec::put(const Service& service) { state_->put(&SpecSnapshot::services, service); }
void MemoryMeshSpec::put(const smi::TrafficSplit& split) {
  state_->put(&SpecSnapshot::splits, split);
}
void MemoryMeshSpec::put(const smi::HttpRouteGroup& group) {
  state_->put(&SpecSnapshot::http_routes, group);
}
void MemoryMeshSpec::put(const smi::TcpRoute& route) {
  state_->put(&SpecSnapshot::tcp_routes, route);
}
void MemoryMeshSpec::put(const smi::TrafficTarget& target) {
  state_->put(&SpecSnapshot::targets, target);
}
void MemoryMeshSpec::put_service_account(const ServiceAccount& account) {
  state_->put(&SpecSnapshot::accounts, account);
}

void MemoryMeshSpec::put(const Policy& policy) {
  state_->now.change(policy.key,
                     [&](State::Content& content) { return put_into(content.policies, policy); });
}

void MemoryMeshSpec::put(const MeshRootCertificate& root) {
  state_->now.change(model::key_of(root, kOsmNamespace),
                     [&](State::Content& content) { return put_into(content.roots, root); });
}

void MemoryMeshSpec::put_namespace(const std::string& ns) {
  state_->now.change(key_of_namespace(ns),
                     [&](State::Content& content) { return content.add_namespace(ns); });
}

void MemoryMeshSpec::set_mesh_config(const MeshConfig& config) {
  const ObjectKey key = state_->now.read(&State::Content::config_key);
  state_->now.change(key, [&](State::Content& content) {
    if (*content.config == config) return false;
    content.config = std::make_shared<const MeshConfig>(config);
    return true;
  });
}

void MemoryMeshSpec::remove(const ObjectKey& key) {
  state_->now.change(key, [&](State::Content& content) { return content.erase(key); });
}

void MemoryMeshSpec::set_synced(bool synced) {
  state_->now.set<bool>(&State::Content::synced, synced);
}

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
  return state_->list(&SpecSnapshot::splits);
}
SharedList<smi::HttpRouteGroup> MemoryMeshSpec::list_http_traffic_specs() const {
  return state_->list(&SpecSnapshot::http_routes);
}
SharedList<smi::TcpRoute> MemoryMeshSpec::list_tcp_traffic_specs() const {
  return state_->list(&SpecSnapshot::tcp_routes);
}
SharedList<smi::TrafficTarget> MemoryMeshSpec::list_traffic_targets() const {
  return state_->list(&SpecSnapshot::targets);
}
std::string MemoryMeshSpec::control_plane_namespace() const { return kOsmNamespace; }

SharedList<Policy> MemoryMeshSpec::list_policies() const {
  return state_->list(&SpecSnapshot::policies);
}
SharedList<Service> MemoryMeshSpec::list_services() const {
  return state_->list(&SpecSnapshot::services);
}
SharedList<MeshRootCertificate> MemoryMeshSpec::list_root_certificates() const {
  return state_->list(&SpecSnapshot::roots);
}

std::vector<ServiceAccount> MemoryMeshSpec::list_service_accounts() const {
  return model::named_accounts(state_->now.read(&State::Content::targets));
}

std::shared_ptr<const Service> MemoryMeshSpec::get_service(const ServiceName& name) const {
  return state_->now.read(&State::Content::services).find(name);
}

std::vector<ServiceAccount> MemoryMeshSpec::list_all_service_accounts() const {
  std::vector<ServiceAccount> accounts;
  for (const auto& account : state_->list(&SpecSnapshot::accounts)) accounts.push_back(*account);
  return accounts;
}

std::vector<std::string> MemoryMeshSpec::list_namespaces() const {
  return state_->now.read(&State::Content::namespaces);
}

MeshConfig MemoryMeshSpec::get_mesh_config() const {
  const auto config = state_->now.read(&State::Content::config);
  return *config;
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
