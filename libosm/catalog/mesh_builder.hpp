// Builds MeshSnapshots incrementally from changed keys, without threads or timers.
//
// Events only mark inputs as outdated. build() reads those again by key, compares the specification
// with the one of the last build, whatever was announced of it, and recomputes everything
// that depends on them, stage by stage: workloads, addresses → endpoints → services → endpoints
// that clients may know (Announcements), policies, problems. Equal results keep their pointer and
// stay out of `changes`. For any order of events, the content equals that of a fresh build from the
// same inputs.
//
// Thread: one strand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catalog/address_owners.hpp"
#include "catalog/announcements.hpp"
#include "catalog/check_references.hpp"
#include "catalog/mesh_hash.hpp"
#include "catalog/object_scope.hpp"
#include "catalog/resolve_clients.hpp"
#include "catalog/resolve_ingress.hpp"
#include "catalog/resolve_policies.hpp"
#include "catalog/resolve_services.hpp"
#include "catalog/resolve_workloads.hpp"
#include "catalog/spec_changes.hpp"
#include "catalog/table_edit.hpp"
#include "endpoint/endpoint_table.hpp"
#include "endpoint/source_table.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::catalog {

// Change of one object in a build.
struct ObjectChange {
  bool present = true;  // false: removed
  ObjectScope before;   // its scope before the change
};
using ObjectChanges = std::map<ObjectKey, ObjectChange>;

class MeshBuilder {
 public:
  // The state of the specification now; never null.
  using SpecSource = std::function<std::shared_ptr<const SpecSnapshot>()>;

  // Lifetime: everything borrowed outlives the builder.
  MeshBuilder(SpecSource spec, std::vector<ProviderEntry> providers,
              std::vector<WorkloadProvider*> workload_providers, const TrustDomains& trust_domains);
  MeshBuilder(const MeshSpec& spec, std::vector<ProviderEntry> providers,
              std::vector<WorkloadProvider*> workload_providers, const TrustDomains& trust_domains)
      : MeshBuilder([&spec] { return spec.snapshot(); }, std::move(providers),
                    std::move(workload_providers), trust_domains) {}

  // Calls `on_step` now and then while build() runs, which may take long. Not null.
  void on_steps(const std::function<void()>& on_step) {
    step_ = on_step;
    endpoints_.on_steps(on_step);
    source_addresses_.on_steps(on_step);
  }

  // Without it clients are told everything at once. Lifetime: it outlives the builder.
  void filter_announcements(Announcements& filter) { filter_ = &filter; }

  void endpoints_changed(const std::vector<ServiceName>& services) {
    stale_endpoints_.insert(services.begin(), services.end());
  }
  void all_endpoints_changed() { resync_endpoints_ = true; }
  void workloads_changed(const std::vector<WorkloadName>& workloads) {
    stale_workloads_.insert(workloads.begin(), workloads.end());
  }
  void all_workloads_changed() { resync_workloads_ = true; }
  void trust_domains_changed(const TrustDomains& trust_domains);

  // Inputs that have not synced: "mesh specification", "endpoints provider vm". build() works only
  // if there are none.
  std::vector<std::string> waiting_for() const;

  // The next generation; null if nothing differs from the last one, or an input has not synced.
  std::shared_ptr<const model::MeshSnapshot> build();

  // The objects that changed before the last build(), including changes without effect.
  const ObjectChanges& object_changes() const { return object_changes_; }
  // Index of the last generation. Never null.
  const std::shared_ptr<const PolicyIndex>& policy_index() const { return index_; }
  std::uint64_t generation() const { return next_.generation; }
  // The state of the specification that the last build() read. Never null.
  const std::shared_ptr<const SpecSnapshot>& objects() const { return next_.objects; }

  // True if a provider threw; then build() is worth another try later.
  bool has_failures() const {
    return endpoints_.has_failures() || source_addresses_.has_failures() ||
           !provider_problems_.empty();
  }

  const endpoint::EndpointTable& endpoints() const { return endpoints_; }

 private:
  using ServiceTable = Table<model::ServiceEntry>;

  // The stages, in order. Each adds its changes to next_.changes.
  std::set<ServiceIdentity> refresh_denials(const SpecChanges& spec);
  std::set<ServiceName> read_announced();
  std::set<std::string> refresh_addresses(const SpecChanges& spec);
  void refresh_endpoints(const SpecChanges& spec, const std::set<std::string>* others,
                         std::set<ServiceName>& changed);
  void announce_endpoints(const std::set<ServiceName>& changed);
  bool refresh_sources(const SpecChanges& spec, const std::set<ServiceName>& announced, bool all);
  void refresh_services(const SpecChanges& spec, const std::set<ServiceName>& endpoints,
                        bool ingress);
  std::set<ServiceIdentity> refresh_targets(const SpecChanges& spec);
  void refresh_policies(std::set<ServiceIdentity> concerned, std::set<ServiceIdentity> due,
                        const ServiceTable& services_before, bool mode_changed);
  void refresh_permissive();
  void refresh_clients(const SpecChanges& spec);
  void refresh_telemetry(const SpecChanges& spec);
  void refresh_workloads(const SpecChanges& spec);
  std::vector<Problem> source_problems() const;
  void refresh_problems(const SpecChanges& spec, const model::MeshSnapshot& before);
  void note_objects(const std::map<ObjectKey, bool>& changed, const model::MeshSnapshot& before,
                    const PolicyIndex& index_before);

  bool refuses(const Endpoint& endpoint) const;
  std::shared_ptr<const endpoint::MergedService> served(const ServiceName& service) const;
  RouteObjects route_objects() const;
  void read_workloads(std::size_t provider, bool all, const std::set<WorkloadName>& names);

  std::function<void()> step_ = [] {};
  Announcements* filter_ = nullptr;
  SpecSource spec_;
  endpoint::SourceTable source_addresses_;
  endpoint::EndpointTable endpoints_;
  std::vector<WorkloadProvider*> workload_providers_;

  std::set<ServiceName> stale_endpoints_;
  bool resync_endpoints_ = true;
  std::set<WorkloadName> stale_workloads_;
  bool resync_workloads_ = true;
  bool other_domains_ = false;

  // State of the stages between builds.
  AddressOwners addresses_;
  ServiceDrafts drafts_;
  ServiceAges ages_;                       // of the drafts
  std::set<ServiceName> source_services_;  // of IngressBackends
  Sources sources_;
  std::shared_ptr<const PolicyIndex> index_ = std::make_shared<const PolicyIndex>();
  WorkloadClaims claims_;  // by the last good answers
  PortConflicts port_conflicts_;
  std::vector<Problem> service_problems_;
  std::vector<Problem> limit_problems_;
  std::vector<Problem> order_problems_;  // of ServiceProviders
  std::vector<Problem> ingress_problems_;
  std::vector<Problem> entry_problems_;  // of settled entries
  UnknownSources unknown_sources_;
  std::vector<Problem> reference_problems_;  // of splits and matches, by TrafficTargets
  std::vector<Problem> client_problems_;     // of Retries and Egresses
  std::vector<Problem> telemetry_problems_;
  std::vector<Problem> provider_problems_;  // problems of workload providers that threw
  ObjectChanges object_changes_;

  MeshHash hash_;
  model::MeshSnapshot next_;  // the last generation's content, being changed into the next
  bool published_ = false;
  bool reports_changed_ = false;  // something differs that is not in Changes
};

}  // namespace osm::inline v1::catalog
