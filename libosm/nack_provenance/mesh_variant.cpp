#include "nack_provenance/mesh_variant.hpp"

#include <algorithm>
#include <utility>

namespace osm::inline v1::nack_provenance {

class MeshVariant::Spec final : public MeshSpec {
 public:
  model::SpecObjects objects;

  SharedList<smi::TrafficSplit> list_traffic_splits() const override { return objects.splits; }
  SharedList<smi::HttpRouteGroup> list_http_traffic_specs() const override {
    return objects.http_routes;
  }
  SharedList<smi::TcpRoute> list_tcp_traffic_specs() const override { return objects.tcp_routes; }
  SharedList<smi::TrafficTarget> list_traffic_targets() const override { return objects.targets; }
  SharedList<Service> list_services() const override { return objects.services; }
  SharedList<Policy> list_policies() const override { return objects.policies; }
  std::shared_ptr<const Service> get_service(const ServiceName& name) const override {
    return model::find(objects.services, {kinds::kService, name.ns, name.name});
  }
  std::vector<std::string> list_namespaces() const override { return objects.namespaces; }
  MeshConfig get_mesh_config() const override { return objects.config; }
  std::string control_plane_namespace() const override { return objects.control_plane_namespace; }
  bool has_synced() const override { return true; }
  // Accounts and CAs do not shape the mesh. Problems of it are reported to nobody.
  SharedList<MeshRootCertificate> list_root_certificates() const override { return {}; }
  std::vector<ServiceAccount> list_service_accounts() const override { return {}; }
  std::vector<ServiceAccount> list_all_service_accounts() const override { return {}; }
  std::vector<Problem> list_problems() const override { return {}; }
  Subscription subscribe(std::function<void(const std::vector<ObjectKey>&)>) override { return {}; }
};

// Endpoints are announced to the proxies of all meshes at the same time. A provider may be ahead of
// the newest mesh, too.
class MeshVariant::Filter final : public catalog::EndpointFilter {
 public:
  void follow(const Snapshot& newest, bool each_one_told) {
    newest_ = newest;
    if (each_one_told) {
      changed_.insert(newest->changes.endpoints.begin(), newest->changes.endpoints.end());
    } else {
      for (const auto& known : newest->endpoints) changed_.insert(known->service);
    }
  }

  std::set<ServiceName> begin(const model::MeshSnapshot&, bool) override {
    return std::exchange(changed_, {});
  }
  void filter(model::ServiceEndpoints& endpoints, const model::ServiceEndpoints*) override {
    const auto known = newest_->endpoints.find(endpoints.service);
    std::erase_if(endpoints.endpoints, [&](const Endpoint& endpoint) {
      return !known || !catalog::has_place_of(*known, endpoint);
    });
  }

 private:
  Snapshot newest_;
  std::set<ServiceName> changed_;
};

MeshVariant::MeshVariant(const MeshInputs& inputs)
    : inputs_(inputs),
      domains_(inputs.trust_domains()),
      spec_(std::make_unique<Spec>()),
      filter_(std::make_unique<Filter>()),
      builder_(*spec_, inputs.providers, inputs.workload_providers, domains_) {
  builder_.filter_endpoints(*filter_);
}

MeshVariant::~MeshVariant() = default;

void MeshVariant::follow(const Snapshot& newest) {
  const Snapshot before = std::exchange(newest_, newest);
  filter_->follow(newest, before && newest->generation == before->generation + 1);
  if (!before) return;  // the builder reads everything at first
  if (TrustDomains now = inputs_.trust_domains(); now != domains_) {
    domains_ = std::move(now);
    builder_.trust_domains_changed(domains_);
  }
  const model::Changes& changes = newest->changes;
  if (changes.everything || newest->generation != before->generation + 1 || has_failures()) {
    builder_.all_endpoints_changed();
    builder_.all_workloads_changed();
    return;
  }
  std::vector<ServiceName> services(changes.endpoints.begin(), changes.endpoints.end());
  services.insert(services.end(), changes.services.begin(), changes.services.end());
  builder_.endpoints_changed(services);
  std::vector<WorkloadName> workloads;
  for (const model::ProxyKey& key : changes.workloads)
    for (const Snapshot& mesh : {before, newest})
      if (const auto entry = mesh->workloads.find(key)) workloads.push_back(entry->workload.name);
  builder_.workloads_changed(workloads);
}

ads::MeshPtr MeshVariant::without(const ObjectSet& objects) {
  model::SpecObjects left = *newest_->objects;
  model::for_each_list([&](auto list, auto) {
    std::erase_if(left.*list,
                  [&](const auto& object) { return objects.contains(model::key_of(*object)); });
  });
  if (objects.contains(model::mesh_config_key())) {
    ProxySettings defaults;
    defaults.cluster_domain = left.config.proxy.cluster_domain;
    left.config.proxy = defaults;
  }
  auto changed = model::differing(spec_->objects, left);
  // Namespaces are read together.
  if (left.namespaces != spec_->objects.namespaces) changed.emplace_back(kinds::kNamespace, "", "");
  spec_->objects = std::move(left);
  builder_.spec_changed(changed);
  if (auto fresh = builder_.build()) return last_ = std::move(fresh);
  if (!last_ || last_->changes.empty()) return last_;
  // The same mesh, which nothing has changed since the last call.
  auto same = std::make_shared<model::MeshSnapshot>(*last_);
  same->changes = {};
  return last_ = std::move(same);
}

}  // namespace osm::inline v1::nack_provenance
