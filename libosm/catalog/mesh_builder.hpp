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

#include "catalog/object_scope.hpp"
#include "catalog/resolve_policies.hpp"
#include "catalog/resolve_services.hpp"
#include "catalog/resolve_workloads.hpp"
#include "catalog/spec_view.hpp"
#include "catalog/table_edit.hpp"
#include "endpoint/endpoint_table.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::catalog {

// What became of one object in a build.
struct ObjectChange {
  bool present = true;  // false: it is gone
  ObjectScope before;   // whom it concerned until then
};
using ObjectChanges = std::map<ObjectKey, ObjectChange>;

class MeshBuilder {
 public:
  // Everything outlives the builder.
  MeshBuilder(const MeshSpec& spec, std::vector<ProviderEntry> providers,
              std::vector<WorkloadProvider*> workload_providers, const TrustDomains& trust_domains);

  void spec_changed(const std::vector<ObjectKey>& keys) { spec_.invalidate(keys); }
  void endpoints_changed(const std::vector<ServiceName>& services) {
    stale_endpoints_.insert(services.begin(), services.end());
  }
  void all_endpoints_changed() { resync_endpoints_ = true; }
  void workloads_changed(const std::vector<WorkloadName>& workloads) {
    stale_workloads_.insert(workloads.begin(), workloads.end());
  }
  void all_workloads_changed() { resync_workloads_ = true; }
  void trust_domains_changed(const TrustDomains& trust_domains);

  // "mesh specification", "endpoints provider vm": what has not synced. Empty: build() builds.
  std::vector<std::string> waiting_for() const;

  // The next generation; null when nothing differs from the last one or something has not synced.
  std::shared_ptr<const model::MeshSnapshot> build();

  // The objects that the last build() found changed, also when that made no difference.
  const ObjectChanges& object_changes() const { return object_changes_; }
  // Of the last generation. Never null.
  const std::shared_ptr<const PolicyIndex>& policy_index() const { return index_; }
  std::uint64_t generation() const { return next_.generation; }
  // What the last build() read. Null before the first.
  const std::shared_ptr<const model::SpecObjects>& objects() const { return next_.objects; }

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
  void refresh_problems();
  void note_objects(const std::map<ObjectKey, bool>& changed, const model::MeshSnapshot& before,
                    const PolicyIndex& index_before);

  RouteObjects route_objects() const;
  void read_workloads(std::size_t provider, bool all, const std::set<WorkloadName>& names);

  SpecView spec_;
  endpoint::EndpointTable endpoints_;
  std::vector<WorkloadProvider*> workload_providers_;

  std::set<ServiceName> stale_endpoints_;
  bool resync_endpoints_ = true;
  std::set<WorkloadName> stale_workloads_;
  bool resync_workloads_ = true;
  bool other_domains_ = false;

  // What the stages hold between builds.
  ServiceDrafts drafts_;
  std::shared_ptr<const PolicyIndex> index_ = std::make_shared<const PolicyIndex>();
  WorkloadClaims claims_;  // by the last good answers
  PortConflicts port_conflicts_;
  std::vector<Problem> service_problems_;
  std::vector<Problem> provider_problems_;  // of workload providers that threw
  ObjectChanges object_changes_;

  model::MeshSnapshot next_;  // the last generation's content, being changed into the next
  bool published_ = false;
  bool reports_changed_ = false;  // something differs that Changes does not speak of
};

}  // namespace osm::inline v1::catalog
