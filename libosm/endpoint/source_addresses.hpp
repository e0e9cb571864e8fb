// The part of a provider over an ObjectStore that follows the source Services of IngressBackends,
// also in namespaces outside of the mesh. It holds objects of the sources' namespaces only. Plain
// data; not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"
#include "osm/values/ingress_backend.hpp"

namespace osm::inline v1::endpoint {

// The Services of one namespace on a platform, and the addresses behind them.
class AddressTable {
 public:
  virtual ~AddressTable() = default;

  // Null: the object is gone.
  virtual void set_object(const ObjectKey& key, const Object* object) = 0;
  // Addresses behind the Service, ordered.
  virtual std::set<std::string> addresses_of(const std::string& service) const = 0;
  // Ids for a ResourceResolver that its objects name.
  virtual std::set<std::string> resources() const { return {}; }
};

// The source Services of all IngressBackends.
inline std::set<ServiceName> source_services(const SharedList<Policy>& policies) {
  std::set<ServiceName> out;
  for (const auto& policy : policies)
    if (const auto* ingress = policy->get<IngressBackend>())
      for (const IngressSourceService& source : ingress->services) out.insert(source.service);
  return out;
}

class SourceAddresses {
 public:
  using MakeTable = std::function<std::unique_ptr<AddressTable>()>;

  // `kinds`: the objects that its tables read. Without `make_table` it follows nothing.
  SourceAddresses(const ObjectStore& store, std::vector<GroupKind> kinds, MakeTable make_table)
      : store_(store), kinds_(std::move(kinds)), make_table_(std::move(make_table)) {}

  // Follows exactly these Services.
  void follow(const std::set<ServiceName>& services) {
    if (!make_table_) return;
    std::erase_if(addresses_, [&](const auto& entry) { return !services.contains(entry.first); });
    std::set<std::string> entered;
    std::map<std::string, std::unique_ptr<AddressTable>> tables;
    for (const ServiceName& service : services) {
      const bool fresh = addresses_.try_emplace(service).second;
      auto& table = tables[service.ns];
      if (!table) table = std::move(tables_[service.ns]);
      if (!table) {
        table = make_table_();
        entered.insert(service.ns);
      }
      if (fresh) touched_.insert(service.ns);
    }
    tables_ = std::move(tables);
    if (entered.empty()) return;
    for (const GroupKind& kind : kinds_)
      for (const auto& object : store_.list(kind))
        if (entered.contains(object->key.ns))
          tables_.at(object->key.ns)->set_object(object->key, object.get());
  }

  void read(const ObjectKey& key) {
    const auto table = tables_.find(key.ns);
    if (table == tables_.end()) return;
    for (const GroupKind& kind : kinds_) {
      if (!key.is(kind)) continue;
      table->second->set_object(key, store_.get(key).get());
      touched_.insert(key.ns);
    }
  }

  // Addresses of any of its resources may have changed.
  void touch_all() {
    for (const auto& [ns, table] : tables_) touched_.insert(ns);
  }

  std::set<std::string> resources() const {
    std::set<std::string> out;
    for (const auto& [ns, table] : tables_) out.merge(table->resources());
    return out;
  }

  // Adds the Services whose addresses changed since the last call.
  void update(std::vector<ServiceName>& changed) {
    if (touched_.empty()) return;
    for (auto& [service, held] : addresses_) {
      const auto table = tables_.find(service.ns);
      if (table == tables_.end() || !touched_.contains(service.ns)) continue;
      auto now = table->second->addresses_of(service.name);
      if (std::exchange(held, now) != now) changed.push_back(service);
    }
    touched_.clear();
  }

  std::vector<std::string> addresses_of(const ServiceName& service) const {
    const auto at = addresses_.find(service);
    if (at == addresses_.end()) return {};
    return {at->second.begin(), at->second.end()};
  }

  // True if a followed Service is in the namespace.
  bool follows(const std::string& ns) const { return tables_.contains(ns); }

 private:
  const ObjectStore& store_;
  const std::vector<GroupKind> kinds_;
  const MakeTable make_table_;
  std::map<std::string, std::unique_ptr<AddressTable>> tables_;  // by namespace
  std::map<ServiceName, std::set<std::string>> addresses_;
  std::set<std::string> touched_;  // namespaces
};

}  // namespace osm::inline v1::endpoint
