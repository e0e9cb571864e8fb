// Keys in, MeshSnapshot out: the incremental heart of the catalog, without threads or timers.
//
// Events only mark what is out of date; build() reads it again by key and recomputes what depends
// on it, stage by stage: endpoints → services → policies, workloads, problems. What comes out equal
// keeps its pointer and stays out of `changes`. However the events came, the content is that of a
// fresh build from the same inputs. Lives on one strand.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "catalog/resolve_policies.hpp"
#include "catalog/resolve_services.hpp"
#include "catalog/spec_view.hpp"
#include "catalog/table_edit.hpp"
#include "endpoint/endpoint_table.hpp"
#include "model/mesh_snapshot.hpp"
#include "model/own_ports.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_spec.hpp"

namespace osm::catalog {

class MeshBuilder {
 public:
  // Everything outlives the builder.
  MeshBuilder(const MeshSpec& spec, std::vector<endpoint::ProviderEntry> providers,
              std::vector<WorkloadProvider*> workload_providers, TrustDomain trust_domain);

  void spec_changed(const std::vector<ObjectKey>& keys) { spec_.invalidate(keys); }
  void endpoints_changed(const std::vector<ServiceName>& services) {
    stale_endpoints_.insert(services.begin(), services.end());
  }
  void workloads_changed() { stale_workloads_ = true; }

  // "mesh specification", "endpoints provider vm": what has not synced. Empty: build() builds.
  std::vector<std::string> waiting_for() const;

  // The next generation; null when nothing differs from the last one or something has not synced.
  std::shared_ptr<const model::MeshSnapshot> build();

  // Whether a provider threw, so that build() is worth calling again later.
  bool has_failures() const { return endpoints_.has_failures() || !provider_problems_.empty(); }

  const endpoint::EndpointTable& endpoints() const { return endpoints_; }

 private:
  using ServiceTable = model::Table<model::ServiceEntry>;

  // The stages, in order. Each puts what it changed into next_.changes.
  std::set<ServiceName> refresh_endpoints(const SpecChanges& spec);
  void refresh_services(const SpecChanges& spec, const std::set<ServiceName>& endpoints);
  std::set<ServiceIdentity> refresh_targets(const SpecChanges& spec);
  void refresh_policies(std::set<ServiceIdentity> concerned, const ServiceTable& services_before,
                        bool mode_changed);
  void refresh_permissive();
  void refresh_workloads(const SpecChanges& spec);
  void refresh_port_conflicts();
  void refresh_problems();

  RouteObjects route_objects() const;
  std::vector<Workload> list_workloads();

  SpecView spec_;
  endpoint::EndpointTable endpoints_;
  std::vector<WorkloadProvider*> workload_providers_;

  std::set<ServiceName> stale_endpoints_;
  bool resync_endpoints_ = true;
  bool stale_workloads_ = true;

  // What the stages hold between builds.
  ServiceDrafts drafts_;
  PolicyIndex index_;
  std::vector<std::vector<Workload>> listed_workloads_;  // by provider: its last good list
  std::map<model::ProxyKey, std::vector<model::PortConflict>> port_conflicts_;
  std::vector<Problem> service_problems_;
  std::vector<Problem> workload_problems_;
  std::vector<Problem> provider_problems_;  // of workload providers that threw

  model::MeshSnapshot next_;  // the last generation's content, being changed into the next
  bool published_ = false;
  bool reports_changed_ = false;  // something differs that Changes does not speak of
};

}  // namespace osm::catalog
