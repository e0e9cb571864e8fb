#include "nack_provenance/trial_mesh.hpp"

#include <utility>

namespace osm::inline v1::nack_provenance {

class TrialMesh::Spec final : public MeshSpec {
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
    for (const auto& service : objects.services)
      if (service->name == name) return service;
    return nullptr;
  }
  std::vector<std::string> list_namespaces() const override { return objects.namespaces; }
  MeshConfig get_mesh_config() const override { return objects.config; }
  std::string control_plane_namespace() const override { return objects.control_plane_namespace; }
  bool has_synced() const override { return true; }
  // Accounts and CAs do not shape the mesh. Problems of a trial are reported to nobody.
  SharedList<MeshRootCertificate> list_root_certificates() const override { return {}; }
  std::vector<ServiceAccount> list_service_accounts() const override { return {}; }
  std::vector<ServiceAccount> list_all_service_accounts() const override { return {}; }
  std::vector<Problem> list_problems() const override { return {}; }
  Subscription subscribe(std::function<void(const std::vector<ObjectKey>&)>) override { return {}; }
};

TrialMesh::TrialMesh(Options options)
    : before_(std::move(options.before)),
      after_(std::move(options.after)),
      spec_(std::make_unique<Spec>()),
      builder_(*spec_, std::move(options.providers), std::move(options.workload_providers),
               options.trust_domain) {}

TrialMesh::~TrialMesh() = default;

TrialMesh::SnapshotPtr TrialMesh::with_old(const std::set<ObjectKey>& old) {
  return build(model::mixed(before_, after_, old));
}

TrialMesh::SnapshotPtr TrialMesh::without(const ObjectKey& object) {
  model::SpecObjects nothing;
  nothing.config = before_.config;
  return build(model::mixed(nothing, after_, {object}));
}

TrialMesh::SnapshotPtr TrialMesh::build(model::SpecObjects objects) {
  const auto changed = model::differing(spec_->objects, objects);
  spec_->objects = std::move(objects);
  builder_.spec_changed(changed);
  if (auto fresh = builder_.build()) last_ = std::move(fresh);
  return last_;  // the mesh of the trial before if nothing differs
}

}  // namespace osm::inline v1::nack_provenance
