#include "osm/testing/memory_mesh_spec.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/maps.hpp"
#include "model/spec_tables.hpp"

namespace osm::inline v1::testing {
namespace {

constexpr const char* kOsmNamespace = "osm-system";

void add_namespace(SpecSnapshot& spec, const std::string& ns) {
  const auto at = std::lower_bound(spec.namespaces.begin(), spec.namespaces.end(), ns);
  if (at == spec.namespaces.end() || *at != ns) spec.namespaces.insert(at, ns);
}

}  // namespace

struct MemoryMeshSpec::State {
  std::mutex mutex;
  std::map<ObjectKey, ObjectSource> sources;
};

MemoryMeshSpec::MemoryMeshSpec() : state_(std::make_unique<State>()) {
  change([](SpecSnapshot& spec) {
    spec.config_key = {kinds::kMeshConfig, kOsmNamespace, "osm-mesh-config"};
    spec.synced = true;
  });
}
MemoryMeshSpec::~MemoryMeshSpec() = default;

template <class Edit>
void MemoryMeshSpec::change(Edit edit) {
  SpecSnapshot next = *snapshot();
  edit(next);
  publish(std::move(next), list_problems());
}

template <class T>
void MemoryMeshSpec::put_into(Table<T> SpecSnapshot::*table, const T& object,
                              const std::string& ns) {
  change([&](SpecSnapshot& spec) {
    if (!ns.empty()) add_namespace(spec, ns);
    spec.*table = (spec.*table).with(std::make_shared<const T>(object));
  });
}

void MemoryMeshSpec::put(const Service& service) {
  put_into(&SpecSnapshot::services, service, service.name.ns);
}
void MemoryMeshSpec::put(const smi::TrafficSplit& split) {
  put_into(&SpecSnapshot::splits, split, split.name.ns);
}
void MemoryMeshSpec::put(const smi::HttpRouteGroup& group) {
  put_into(&SpecSnapshot::http_routes, group, group.name.ns);
}
void MemoryMeshSpec::put(const smi::TcpRoute& route) {
  put_into(&SpecSnapshot::tcp_routes, route, route.name.ns);
}
void MemoryMeshSpec::put(const smi::TrafficTarget& target) {
  put_into(&SpecSnapshot::targets, target, target.name.ns);
}
void MemoryMeshSpec::put_service_account(const ServiceAccount& account) {
  put_into(&SpecSnapshot::accounts, account, account.ns);
}
void MemoryMeshSpec::put(const Policy& policy) { put_into(&SpecSnapshot::policies, policy); }
void MemoryMeshSpec::put(const MeshRootCertificate& root) { put_into(&SpecSnapshot::roots, root); }

void MemoryMeshSpec::put_namespace(const std::string& ns) {
  change([&](SpecSnapshot& spec) { add_namespace(spec, ns); });
}

void MemoryMeshSpec::set_mesh_config(const MeshConfig& config) {
  change([&](SpecSnapshot& spec) { spec.config = std::make_shared<const MeshConfig>(config); });
}

void MemoryMeshSpec::remove(const ObjectKey& key) {
  change([&](SpecSnapshot& spec) {
    if (key.is(kinds::kNamespace)) std::erase(spec.namespaces, key.name);
    if (key.is(kinds::kServiceAccount)) spec.accounts = spec.accounts.without({key.ns, key.name});
    if (key.is(kinds::kMeshRootCertificate) && key.ns == kOsmNamespace)
      spec.roots = spec.roots.without(key.name);
    model::for_each_list([&](auto table) {
      if (model::may_hold(spec.*table, key))
        spec.*table = (spec.*table).without(model::name_in(spec.*table, key));
    });
  });
}

void MemoryMeshSpec::set_synced(bool synced) {
  change([&](SpecSnapshot& spec) { spec.synced = synced; });
}

void MemoryMeshSpec::set_problems(std::vector<Problem> problems) {
  publish(*snapshot(), std::move(problems));
}

void MemoryMeshSpec::set_source(const ObjectKey& key, ObjectSource source) {
  std::lock_guard lock(state_->mutex);
  state_->sources[key] = std::move(source);
}

std::optional<ObjectSource> MemoryMeshSpec::source_of(const ObjectKey& key) const {
  std::lock_guard lock(state_->mutex);
  const auto* found = find_in(state_->sources, key);
  return found ? std::optional(*found) : std::nullopt;
}

}  // namespace osm::inline v1::testing
