// Announces an endpoint when its proxy can serve it (ADR 0071).
//
// An endpoint that appears while its proxy is connected waits until the proxy has acknowledged the
// ports of its workload, and kBound at most. All others are announced at once: those of the first
// generation, those without a proxy, and those whose proxy is not connected as far as this replica
// knows. An announced endpoint stays until it disappears from the mesh, and longer where clients
// would have none else: at the former port while it waits at another target port, and while all
// others that serve the Service's port wait, unless its workload is gone or denied.
//
// The cost of a build follows its changes and the waiting endpoints. Not synchronized.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catalog/endpoint_filter.hpp"
#include "model/proxy_readiness.hpp"
#include "osm/clock.hpp"

namespace osm::inline v1::catalog {

class ReadinessGate final : public EndpointFilter {
 public:
  // Time for which an endpoint waits for its proxy.
  static constexpr std::chrono::seconds kBound{5};

  // Lifetime: both outlive the gate.
  ReadinessGate(const model::ProxyReadiness& proxies, const Clock& clock)
      : proxies_(proxies), clock_(clock) {}

  std::set<ServiceName> begin(const model::MeshSnapshot& next, bool first) override;
  void filter(model::ServiceEndpoints& endpoints, const model::ServiceEndpoints* known) override;

  // The build is done; `generation` is the newest, and `fresh` if this build made it. Call it after
  // each build. Result: the generations with which endpoints came that this build announced.
  std::set<std::uint64_t> end(std::uint64_t generation, bool fresh);

  // The Services with waiting endpoints that a build would announce now.
  std::set<ServiceName> due() const;
  // Time at which the next one is announced in any case; nullopt: none waits.
  std::optional<SteadyTime> deadline() const;

  // Waiting endpoints, for questions about the mesh.
  struct Waiting {
    std::set<std::pair<ServiceName, std::string>> addresses;  // by Service
    std::set<std::uint64_t> generations;  // generations in which they came, and are not announced
    std::size_t endpoints = 0;
  };
  Waiting waiting() const;
  // Number of endpoints that were announced without an acknowledgement, since the beginning.
  std::uint64_t announced_late() const { return announced_late_; }

 private:
  using Place = std::pair<std::string, Port>;  // address and port
  struct Wait {
    ServiceIdentity identity;
    SteadyTime until;
    std::uint64_t since = 0;  // the generation with which it came; 0: none
    bool fresh = true;        // this build found it
  };
  using Waits = std::map<Place, Wait>;

  void follow(const std::set<model::ProxyKey>& changed);
  model::Readiness readiness_of(const ServiceName& service, const std::string& address,
                                const ServiceIdentity& identity) const;
  model::Readiness readiness_of(const model::WorkloadEntry& workload,
                                const ServiceName& service) const;
  void keep_former(const model::ServiceEndpoints& known, const std::vector<Endpoint>& waiting,
                   std::vector<Endpoint>& endpoints) const;
  bool may_serve(const Endpoint& endpoint) const;
  bool hides(const ServiceName& service, const Endpoint& endpoint, Waits& before, Waits& waits);

  const model::ProxyReadiness& proxies_;
  const Clock& clock_;
  bool first_ = true;
  Table<model::ServiceEntry> services_;    // of the newest build
  Table<model::WorkloadEntry> workloads_;  // likewise
  std::map<std::string, std::set<model::ProxyKey>> by_address_;
  std::map<model::ProxyKey, std::string> addresses_;
  std::map<ServiceName, Waits> waiting_;  // no empty values
  std::set<std::uint64_t> announced_;     // Wait::since of what this build announced
  std::uint64_t announced_late_ = 0;
};

}  // namespace osm::inline v1::catalog
