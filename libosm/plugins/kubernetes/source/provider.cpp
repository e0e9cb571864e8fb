// Pods and EndpointSlices of an ObjectStore as endpoints and workloads.
#include <utility>

#include "base/maps.hpp"
#include "endpoint/store_provider.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/source/slice_table.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::inline v1::kubernetes {
namespace {

constexpr Counter kObjectsDecoded{
    "osm_kubernetes_decoded_total", "Pods and EndpointSlices decoded, by kind", {"kind"}};

// One namespace of the mesh.
class NamespaceTable {
 public:
  explicit NamespaceTable(const std::string& ns) : pods_(ns), slices_(ns) {}

  // Null: the object is gone.
  void set_object(const ObjectKey& key, const Object* object) {
    if (key.is(kinds::kPod)) {
      pods_.set_pod(key.name, object ? decode_pod(*object) : DecodedPod());
    } else {
      slices_.set_slice(key.name, object ? std::optional(decode_slice(*object)) : std::nullopt);
    }
  }
  void set_service(const std::string& name, const std::shared_ptr<const Service>& service) {
    pods_.set_service(name, service.get());
    slices_.set_service(name, service);
  }

  endpoint::TableChanges update() {
    PodTable::Changes pods = pods_.update();
    endpoint::TableChanges changes = slices_.update(pods_, pods);
    changes.workloads = std::move(pods.workloads);
    changes.problems |= pods.problems;
    return changes;
  }

  const endpoint::ServiceStates& services() const { return slices_.services(); }
  const std::map<std::string, Workload>& workloads() const { return pods_.workloads(); }
  void add_problems(std::vector<Problem>& out) const { pods_.add_problems(out); }

 private:
  PodTable pods_;
  SliceTable slices_;
};

// The EndpointSlices of one namespace, in the mesh or not. An address that ends but still serves
// counts: its last requests are on their way.
class SliceAddresses final : public endpoint::AddressTable {
 public:
  void set_object(const ObjectKey& key, const Object* object) override {
    put_or_erase(slices_, key.name, object ? std::optional(decode_slice(*object)) : std::nullopt);
  }

  std::set<std::string> addresses_of(const std::string& service) const override {
    std::set<std::string> out;
    for (const auto& [name, slice] : slices_)
      if (slice.service == service)
        for (const ListedEndpoint& listed : slice.endpoints)
          if (listed.ready || listed.serving) out.insert(listed.address);
    return out;
  }

 private:
  std::map<std::string, EndpointSlice> slices_;
};

}  // namespace

std::unique_ptr<Provider> make_provider(const ProviderOptions& options) {
  return std::make_unique<endpoint::StoreProvider<Provider, NamespaceTable>>(
      endpoint::StoreProviderOptions<NamespaceTable>{
          .id = options.cluster_name.empty() ? "kubernetes" : "kubernetes-" + options.cluster_name,
          .kinds = {kinds::kPod, kEndpointSlices.group_kind()},
          .store = options.store,
          .mesh_spec = options.mesh_spec,
          .log = options.log,
          .metrics = options.metrics,
          .synced_message = "pods and their endpoints read",
          .recomputed_metric = Counter{"osm_kubernetes_services_recomputed_total",
                                       "Services whose pods were worked out anew"},
          .make_table = [](const std::string& ns) { return NamespaceTable(ns); },
          .read =
              [&metrics = options.metrics](NamespaceTable& table, const ObjectKey& key,
                                           const Object* object) {
                if (object) metrics.add(kObjectsDecoded, {{"kind", key.kind}}, 1);
                table.set_object(key, object);
              },
          .source_kinds = {kEndpointSlices.group_kind()},
          .make_sources = [] { return std::make_unique<SliceAddresses>(); }});
}

}  // namespace osm::inline v1::kubernetes
