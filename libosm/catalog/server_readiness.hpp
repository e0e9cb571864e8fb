// Readiness of the proxies behind endpoints, in the mesh that is being built (ADR 0071).
// Not synchronized.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "model/proxy_readiness.hpp"

namespace osm::inline v1::catalog {

class ServerReadiness {
 public:
  // Lifetime: `proxies` outlives the object.
  explicit ServerReadiness(const model::ProxyReadiness& proxies) : proxies_(proxies) {}

  // `next`: as Announcements::begin().
  void begin(const model::MeshSnapshot& next);
  // The policies of these accounts differ from those of the mesh until it has them.
  void expect(const std::vector<model::IdentityPolicy>& policies);

  // Precondition: begin() was called.
  const model::MeshSnapshot& mesh() const { return *mesh_; }

  // Readiness of the workload of `account` at the address, as a server of the Service.
  model::Readiness at(const ServiceName& service, const std::string& address,
                      const ServiceIdentity& account) const;
  // Readiness of all servers of the Service that run as `account`, of which clients know.
  model::Readiness of(const ServiceName& service, const ServiceIdentity& account) const;
  // True if all connected servers of the mesh are ready.
  bool all_ready() const;
  // True if the workload of the endpoint is in the mesh, and not denied.
  bool may_serve(const Endpoint& endpoint) const;

 private:
  model::Serving serving_of(const model::WorkloadEntry& workload) const;
  model::Readiness readiness_of(const model::WorkloadEntry& workload,
                                const ServiceName& service) const;

  const model::ProxyReadiness& proxies_;
  const model::MeshSnapshot* mesh_ = nullptr;
  std::map<ServiceIdentity, std::uint64_t> expected_;  // admissions that mesh_ has not yet
  std::map<std::string, std::set<model::ProxyKey>> by_address_;
  std::map<model::ProxyKey, std::string> addresses_;
  mutable model::ProxyKey late_{};  // of all_ready()
};

}  // namespace osm::inline v1::catalog
