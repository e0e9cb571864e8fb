// Tells clients of an endpoint, of a permission and of the permissive mode when the servers'
// proxies are ready for it (ADR 0071).
//
// An endpoint that appears while its proxy is connected waits until the proxy has acknowledged the
// ports of its workload and its callers, and kBound at most. All others are announced at once:
// those of the first generation, those without a proxy, and those whose proxy is not connected as
// far as this replica knows. An announced endpoint stays until it disappears from the mesh, and
// longer where clients would have none else: at the former port while it waits at another target
// port, and while all others that serve the Service's port wait, unless its workload is gone or
// denied.
//
// In the same way a client waits for the servers of an account that it may call from now on, if it
// called others of that Service before, or an apex of it. And while a mesh becomes permissive, all
// clients keep to the policies of before.
//
// The cost of a build follows its changes and what waits. Not synchronized.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "catalog/announcements.hpp"
#include "catalog/server_readiness.hpp"
#include "catalog/waits.hpp"
#include "model/proxy_readiness.hpp"
#include "osm/clock.hpp"

namespace osm::inline v1::catalog {

class ReadinessGate final : public Announcements {
 public:
  // Time for which something waits for proxies.
  static constexpr std::chrono::seconds kBound{5};

  // Lifetime: both outlive the gate.
  ReadinessGate(const model::ProxyReadiness& proxies, const Clock& clock)
      : servers_(proxies),
        endpoints_(clock, kBound),
        grants_(clock, kBound),
        mode_(clock, kBound) {}

  Due begin(const model::MeshSnapshot& next, bool first) override;
  void filter(std::vector<model::IdentityPolicy>& policies) override;
  void filter(model::ServiceEndpoints& endpoints, const model::ServiceEndpoints* known) override;

  // The build is done; `generation` is the newest, and `fresh` if this build made it. Call it after
  // each build. Result: the generations of what this build told clients later than they came.
  std::set<std::uint64_t> end(std::uint64_t generation, bool fresh);

  // Endpoints and upstreams that a build would filter again now.
  Due due() const;
  // True if a build would tell clients something now.
  bool is_due() const;
  // Time at which the next one is told in any case; nullopt: nothing waits.
  std::optional<SteadyTime> deadline() const;

  // Everything that waits, for questions about the mesh.
  struct Waiting {
    std::set<std::pair<ServiceName, std::string>> addresses;  // of endpoints, by Service
    std::set<std::uint64_t> generations;  // generations of what came, and is not told
    std::size_t endpoints = 0;
    std::size_t permissions = 0;
  };
  Waiting waiting() const;
  // Numbers of those that were told without an acknowledgement, since the beginning.
  std::uint64_t endpoints_told_late() const { return endpoints_.told_late(); }
  std::uint64_t permissions_told_late() const { return grants_.told_late() + mode_.told_late(); }

 private:
  using Place = std::tuple<std::string, Port, ServiceIdentity>;  // address, port and account
  using Grant = std::pair<ServiceName, ServiceIdentity>;         // of an account behind a Service
  using EndpointWaits = Waits<ServiceName, Place>;
  using GrantWaits = Waits<ServiceIdentity, Grant>;  // by client
  using ModeWaits = Waits<std::monostate, std::monostate>;

  bool keeps_smi(bool permissive);
  model::Readiness readiness_of_mode() const;
  void filter(model::IdentityPolicy& policy, bool changed);
  model::Readiness readiness_of(std::map<Grant, model::Readiness>& asked, const Grant& grant) const;
  std::optional<model::Upstream> known_part(const model::Upstream& upstream,
                                            const std::vector<model::Upstream>& known,
                                            const GrantWaits::Some& before, GrantWaits::Some& waits,
                                            bool changed);
  void keep_former(const model::ServiceEndpoints& known, const std::vector<Endpoint>& waiting,
                   std::vector<Endpoint>& endpoints) const;

  ServerReadiness servers_;
  bool first_ = true;
  bool begun_ = false;                       // begin() was called
  bool permissive_ = false;                  // in the last build
  std::set<ServiceIdentity> due_clients_;    // of begin(), until their policies are filtered
  Table<model::ServiceEntry> services_;      // of the last build
  std::map<Grant, model::Readiness> asked_;  // by the build that filters policies
  EndpointWaits endpoints_;
  GrantWaits grants_;
  ModeWaits mode_;
};

}  // namespace osm::inline v1::catalog
