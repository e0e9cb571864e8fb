#include "catalog/server_readiness.hpp"

#include <algorithm>
#include <optional>

#include "base/maps.hpp"
#include "model/own_ports.hpp"

namespace osm::inline v1::catalog {
namespace {

using model::Readiness;

// Readiness of several proxies, each of which may be the one in question.
class Several {
 public:
  // Result: false, and no other one matters.
  bool add(Readiness readiness) {
    if (readiness != Readiness::kUnknown) all_ = readiness;
    return readiness != Readiness::kNotReady;
  }
  Readiness all() const { return all_; }

 private:
  Readiness all_ = Readiness::kUnknown;
};

}  // namespace

void ServerReadiness::begin(const model::MeshSnapshot& next) {
  mesh_ = &next;
  expected_.clear();
  for (const model::ProxyKey& proxy : next.changes.workloads) {
    if (const std::string* before = find_in(addresses_, proxy))
      remove_member(by_address_, *before, proxy);
    const auto workload = next.workloads.find(proxy);
    put_or_erase(addresses_, proxy,
                 workload ? std::optional(workload->workload.address) : std::nullopt);
    if (workload) by_address_[workload->workload.address].insert(proxy);
  }
}

void ServerReadiness::expect(const std::vector<model::IdentityPolicy>& policies) {
  if (mesh_->config.proxy.permissive) return;
  for (const model::IdentityPolicy& policy : policies)
    if (mesh_->admits_of(policy.identity) != policy.admits)
      expected_[policy.identity] = policy.admits;
}

// Several workloads may claim one address.
Readiness ServerReadiness::at(const ServiceName& service, const std::string& address,
                              const ServiceIdentity& account) const {
  const std::set<model::ProxyKey>* proxies = find_in(by_address_, address);
  if (!proxies) return Readiness::kUnknown;
  Several several;
  for (const model::ProxyKey& proxy : *proxies) {
    const auto workload = mesh_->workloads.find(proxy);
    if (!workload || identity_of(workload->workload.account) != account) continue;
    if (!several.add(readiness_of(*workload, service))) break;
  }
  return several.all();
}

Readiness ServerReadiness::of(const ServiceName& service, const ServiceIdentity& account) const {
  Several several;
  if (const auto known = mesh_->endpoints.find(service))
    for (const Endpoint& endpoint : known->endpoints)
      if (endpoint.identity == account && !several.add(at(service, endpoint.address, account)))
        break;
  return several.all();
}

bool ServerReadiness::all_ready() const {
  const auto is_awaited = [&](const model::WorkloadEntry& workload) {
    const model::Serving serving = serving_of(workload);
    return !serving.ports.empty() &&
           proxies_.readiness_of(workload.proxy, serving) == Readiness::kNotReady;
  };
  // The one that was not ready when this was asked last most likely is not.
  if (const auto late = mesh_->workloads.find(late_); late && is_awaited(*late)) return false;
  for (const auto& workload : mesh_->workloads)
    if (is_awaited(*workload)) {
      late_ = workload->proxy;
      return false;
    }
  return true;
}

bool ServerReadiness::may_serve(const Endpoint& endpoint) const {
  const std::set<model::ProxyKey>* proxies = find_in(by_address_, endpoint.address);
  return proxies && std::any_of(proxies->begin(), proxies->end(), [&](const auto& proxy) {
           const auto workload = mesh_->workloads.find(proxy);
           return workload && workload->denied.empty() &&
                  identity_of(workload->workload.account) == endpoint.identity;
         });
}

model::Serving ServerReadiness::serving_of(const model::WorkloadEntry& workload) const {
  const ServiceIdentity account = identity_of(workload.workload.account);
  const std::uint64_t* expected = find_in(expected_, account);
  return {model::own_ports_of(mesh_->services, workload.workload).ports,
          expected ? *expected : mesh_->admits_of(account)};
}

// The event of the workload may be later than that of its endpoint: until then its ports are
// others.
Readiness ServerReadiness::readiness_of(const model::WorkloadEntry& workload,
                                        const ServiceName& service) const {
  const model::Serving serving = serving_of(workload);
  const Readiness readiness = proxies_.readiness_of(workload.proxy, serving);
  const bool serves = std::any_of(serving.ports.begin(), serving.ports.end(),
                                  [&](const MeshService& port) { return port.name == service; });
  return readiness == Readiness::kReady && !serves ? Readiness::kNotReady : readiness;
}

}  // namespace osm::inline v1::catalog
