// The provider of one kind of machine objects: a StoreProvider over MachineTables.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "endpoint/machine_table.hpp"
#include "endpoint/store_provider.hpp"

namespace osm::inline v1::endpoint {

struct MachineProviderOptions {
  std::string id;
  GroupKind kind;
  DecodedMachine (*decode)(const Object& object);
  ObjectStore& store;
  MeshSpec& mesh_spec;
  TrustDomain trust_domain;
  LogSink& log;
  MetricsSink& metrics;
  const char* synced_message;
  Counter recomputed_metric;
  std::optional<Counter> decoded_metric{};  // counts decoded objects
  DrainedMachines* drained = nullptr;       // null: no machine is drained
  ResourceResolver* resolver = nullptr;     // null: nobody resolves
  // Problem of each object that names a resource, if nobody resolves.
  std::string unresolved{};
};

// The machines of one namespace, in the mesh or not, behind its Services.
class OSM_API MachineAddresses final : public AddressTable {
 public:
  MachineAddresses(DecodedMachine (*decode)(const Object& object), const ResourceResolver* resolver)
      : decode_(decode), resolver_(resolver) {}

  void set_object(const ObjectKey& key, const Object* object) override;
  std::set<std::string> addresses_of(const std::string& service) const override;
  std::set<std::string> resources() const override;

 private:
  DecodedMachine (*decode_)(const Object& object);
  const ResourceResolver* resolver_;
  std::map<std::string, Labels> selectors_;  // by Service
  std::map<std::string, Machine> machines_;
};

// Adds machines outside the mesh, addresses that several machines of the mesh have, and problems of
// resources.
OSM_API void add_shared_problems(const MachineProviderOptions& options,
                                 const std::map<std::string, MachineTable>& tables,
                                 const SourceAddresses& sources, std::vector<Problem>& out);

// The provider reads the present content of its sources at once.
template <class Interface>
std::unique_ptr<Interface> make_machine_provider(const MachineProviderOptions& options) {
  ResourceResolver* const resolver = options.resolver;
  MachineTableOptions table{options.kind, options.trust_domain, {}, {}};
  if (const DrainedMachines* drained = options.drained)
    table.is_drained = [drained](const WorkloadName& machine, const ProxyId& proxy) {
      return drained->contains(machine, proxy);
    };
  table.find = [resolver](const std::string& id) {
    return resolver ? resolver->find(id) : std::nullopt;
  };
  return std::make_unique<StoreProvider<Interface, MachineTable>>(
      StoreProviderOptions<MachineTable>{
          .id = options.id,
          .kinds = {options.kind},
          .store = options.store,
          .mesh_spec = options.mesh_spec,
          .log = options.log,
          .metrics = options.metrics,
          .synced_message = options.synced_message,
          .recomputed_metric = options.recomputed_metric,
          .make_table = [table](const std::string& ns) { return MachineTable(table, ns); },
          .read =
              [options](MachineTable& of, const ObjectKey& key, const Object* object) {
                if (object && options.decoded_metric)
                  options.metrics.add(*options.decoded_metric, {}, 1);
                of.set_machine(key.name, object ? options.decode(*object) : DecodedMachine());
              },
          .add_problems =
              [options](const auto& tables, const auto& sources, std::vector<Problem>& out) {
                add_shared_problems(options, tables, sources, out);
              },
          .source_kinds = {kinds::kService, options.kind},
          .make_sources =
              [options] {
                return std::make_unique<MachineAddresses>(options.decode, options.resolver);
              },
          .resolver = resolver,
          .drained = options.drained});
}

}  // namespace osm::inline v1::endpoint
