// The newest mesh without some objects. It follows the mesh of all proxies: the same endpoints,
// workloads and other objects.
// Thread: one strand.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "ads/trial.hpp"
#include "catalog/mesh_builder.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/values/spec_snapshot.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::nack_provenance {

using Snapshot = std::shared_ptr<const model::MeshSnapshot>;
using ObjectSet = std::set<ObjectKey>;

// Lifetime: the providers outlive the meshes.
struct MeshInputs {
  std::vector<ProviderEntry> providers;
  std::vector<WorkloadProvider*> workload_providers;
  std::function<TrustDomains()> trust_domains;  // in effect now
};

// The settings in effect without a MeshConfig.
ProxySettings without_config(const ProxySettings& settings);

// Its builder reads its objects, and asks it for announcements: the proxies of all meshes are told
// of endpoints and permissions at the same time, and a provider may be ahead of the newest mesh.
class MeshVariant : private catalog::Announcements {
 public:
  explicit MeshVariant(const MeshInputs& inputs);

  // The newest mesh of all proxies; each one is told, or those in between count as changed.
  void follow(const Snapshot& newest);

  // The newest mesh without these objects; `changes` are those since the last call. Instead of a
  // MeshConfig its defaults are in effect. Without a Service that checks paths, the others of its
  // namespace check them. Null: not known. Precondition: follow() was called.
  ads::MeshPtr without(const ObjectSet& objects);

  // True if a provider threw, so that the next call of without() may have another result.
  bool has_failures() const { return builder_.has_failures(); }

 private:
  Due begin(const model::MeshSnapshot& next, bool first) override;
  void filter(std::vector<model::IdentityPolicy>& policies) override;
  void filter(model::ServiceEndpoints& endpoints, const model::ServiceEndpoints* known) override;

  const MeshInputs& inputs_;
  TrustDomains domains_;
  Snapshot newest_;
  Due announced_;  // since the last build
  std::shared_ptr<const SpecSnapshot> objects_ = std::make_shared<const SpecSnapshot>();
  catalog::MeshBuilder builder_;
  ads::MeshPtr last_;
};

}  // namespace osm::inline v1::nack_provenance
