#include "catalog/object_records.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

namespace osm::inline v1::catalog {
namespace {

template <class T>
std::shared_ptr<const T> find(const SharedList<T>& list, const ObjectKey& object) {
  const auto at = std::lower_bound(
      list.begin(), list.end(), object, [](const auto& entry, const ObjectKey& wanted) {
        return std::tie(entry->name.ns, entry->name.name) < std::tie(wanted.ns, wanted.name);
      });
  const bool found =
      at != list.end() && (*at)->name.ns == object.ns && (*at)->name.name == object.name;
  return found ? *at : nullptr;
}

template <class T>
bool same(const SharedList<T>& a, const SharedList<T>& b, const ObjectKey& object) {
  const auto left = find(a, object);
  const auto right = find(b, object);
  return left == right || (left && right && *left == *right);
}

}  // namespace

bool is_read(const ObjectKey& object, const MeshSpec& now, const model::SpecObjects& read) {
  const std::string_view kind = object.kind;
  if (kind == "MeshConfig") return now.get_mesh_config() == read.config;
  if (kind == "Service") return same(now.list_services(), read.services, object);
  if (kind == "TrafficTarget") return same(now.list_traffic_targets(), read.targets, object);
  if (kind == "TrafficSplit") return same(now.list_traffic_splits(), read.splits, object);
  if (kind == "TCPRoute") return same(now.list_tcp_traffic_specs(), read.tcp_routes, object);
  if (kind == "HTTPRouteGroup")
    return same(now.list_http_traffic_specs(), read.http_routes, object);
  if (kind != "Namespace") return true;
  const auto has = [&](const std::vector<std::string>& namespaces) {
    return std::find(namespaces.begin(), namespaces.end(), object.name) != namespaces.end();
  };
  return has(now.list_namespaces()) == has(read.namespaces);
}

void ObjectRecords::note(const ObjectKey& object, std::uint64_t generation, bool present,
                         ObjectScope before) {
  ObjectRecord& record = records_[object];
  record.generation = generation;
  record.present = present;
  record.before.merge(before);
  if (!present || !(record.before == ObjectScope())) passing_.emplace_back(generation, object);
  forget(generation);
}

void ObjectRecords::note_endpoints(const std::set<ServiceName>& services,
                                   const model::Table<model::ServiceEndpoints>& now,
                                   std::uint64_t generation) {
  for (const ServiceName& service : services) {
    if (now.find(service)) {
      endpoints_[service] = generation;
    } else {
      endpoints_.erase(service);
    }
  }
}

void ObjectRecords::forget(std::uint64_t now) {
  while (!passing_.empty() && passing_.front().first + kRemembered < now) {
    const auto [generation, object] = passing_.front();
    passing_.pop_front();
    const auto at = records_.find(object);
    if (at == records_.end() || at->second.generation != generation) continue;  // changed meanwhile
    if (at->second.present) {
      at->second.before = {};
    } else {
      records_.erase(at);
    }
  }
}

std::optional<ObjectRecord> ObjectRecords::find(const ObjectKey& object) const {
  const auto at = records_.find(object);
  if (at == records_.end()) return std::nullopt;
  return at->second;
}

std::uint64_t ObjectRecords::endpoints_changed(const ServiceName& service) const {
  const auto at = endpoints_.find(service);
  return at == endpoints_.end() ? 0 : at->second;
}

}  // namespace osm::inline v1::catalog
