#include "catalog/mesh_catalog.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "catalog/proxy_registry.hpp"
#include "explain/explain.hpp"
#include "explain/policy_check.hpp"
#include "model/own_ports.hpp"

namespace osm::inline v1::catalog {
namespace {

using SnapshotPtr = std::shared_ptr<const model::MeshSnapshot>;
using Identities = std::vector<ServiceIdentity>;

// Calls `visit` for each identity in the snapshot, for some more than once.
template <class Visit>
void visit_identities(const model::MeshSnapshot& snapshot, Visit visit) {
  for (const auto& service : snapshot.services)
    for (const ServiceIdentity& identity : service->identities) visit(identity);
  for (const auto& workload : snapshot.workloads) visit(identity_of(workload->workload.account));
  for (const auto& target : snapshot.targets) {
    visit(target->destination);
    for (const ServiceIdentity& source : target->policy.sources) visit(source);
  }
}

// All identities in the snapshot.
std::set<ServiceIdentity> known_identities(const model::MeshSnapshot& snapshot) {
  std::set<ServiceIdentity> out;
  visit_identities(snapshot, [&](const ServiceIdentity& identity) { out.insert(identity); });
  return out;
}

bool is_known(const model::MeshSnapshot& snapshot, const ServiceIdentity& wanted) {
  bool known = false;
  visit_identities(snapshot,
                   [&](const ServiceIdentity& identity) { known = known || identity == wanted; });
  return known;
}

bool has_endpoints(const model::MeshSnapshot& snapshot, const Workload& workload) {
  return std::any_of(
      workload.services.begin(), workload.services.end(), [&](const ServiceName& name) {
        const auto service = snapshot.endpoints.find(name);
        return service && std::any_of(service->endpoints.begin(), service->endpoints.end(),
                                      [&](const Endpoint& endpoint) {
                                        return endpoint.address == workload.address;
                                      });
      });
}

class MeshCatalog final : public ReplicaCatalog {
 public:
  explicit MeshCatalog(const MeshCatalogOptions& options)
      : spec_(options.spec),
        snapshots_(options.snapshots),
        clock_(options.clock),
        elsewhere_(options.elsewhere) {
    snapshots_subscription_ = snapshots_.subscribe([this](const SnapshotPtr& snapshot) {
      for (const model::ProxyKey& proxy : snapshot->changes.workloads)
        if (!snapshot->workloads.find(proxy)) proxies_.forget(proxy);
    });
  }

  const MeshSpec& get_smi_spec() const override { return spec_; }

  Result<Identities> list_inbound_service_identities(
      const ServiceIdentity& identity) const override {
    return list_peers(identity, [&](const model::TargetEntry& target, auto& out) {
      if (target.destination == identity)
        out.insert(target.policy.sources.begin(), target.policy.sources.end());
    });
  }

  Result<Identities> list_outbound_service_identities(
      const ServiceIdentity& identity) const override {
    return list_peers(identity, [&](const model::TargetEntry& target, auto& out) {
      const auto& sources = target.policy.sources;
      if (std::binary_search(sources.begin(), sources.end(), identity))
        out.insert(target.destination);
    });
  }

  Result<Identities> list_service_identities_for_service(
      const ServiceName& service) const override {
    OSM_TRY(const auto entry, find_service(service));
    return entry->identities;
  }

  Result<std::vector<MeshService>> get_services_for_service_identity(
      const ServiceIdentity& identity) const override {
    OSM_TRY(const SnapshotPtr snapshot, current());
    OSM_TRY(find_account(*snapshot, identity));
    std::vector<MeshService> out;
    for (const auto& service : snapshot->services)
      if (std::binary_search(service->identities.begin(), service->identities.end(), identity))
        out.insert(out.end(), service->ports.begin(), service->ports.end());
    std::sort(out.begin(), out.end());
    return out;
  }

  Result<std::vector<TrafficPolicy>> list_smi_policies() const override {
    OSM_TRY(const SnapshotPtr snapshot, current());
    std::map<ServiceIdentity, std::vector<ServiceName>> run;  // Services by account
    for (const auto& service : snapshot->services)
      for (const ServiceIdentity& identity : service->identities)
        run[identity].push_back(service->name);
    std::vector<TrafficPolicy> out;
    for (const auto& target : snapshot->targets)
      for (const ServiceIdentity& source : target->policy.sources)
        out.push_back(
            explain::traffic_policy(*target, source, run[source], run[target->destination]));
    return out;
  }

  Result<std::vector<MergedEndpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    OSM_TRY(const SnapshotPtr snapshot, current());
    const auto found = snapshot->endpoints.find(service);
    if (!found && !snapshot->services.find(service)) return unknown_service(service);
    std::vector<MergedEndpoint> out;
    if (found)
      for (std::size_t i = 0; i < found->endpoints.size(); ++i)
        out.push_back({found->endpoints[i], found->providers.of_each[i]});
    return out;
  }

  Result<std::vector<IngressTrafficPolicy>> get_ingress_policies_for_service(
      const ServiceName& service) const override {
    OSM_TRY(const auto entry, find_service(service));
    std::vector<IngressTrafficPolicy> out;
    for (const auto& [port, callers] : entry->ingress)
      out.push_back(
          {callers.origin.object, port, callers.tls, callers.networks, callers.principals});
    return out;
  }

  void expect_proxy(const certificate::ProxyCertificate& certificate) override {
    proxies_.expect(certificate, clock_.wall_now());
  }
  void register_proxy(const Proxy& proxy) override { proxies_.connected(proxy); }
  void unregister_proxy(const ProxyId& id) override {
    const auto proxy = proxies_.disconnected(id);
    if (!proxy) return;
    // Load the snapshot after registering: a workload that vanishes meanwhile is then forgotten
    // here or by its snapshot.
    const SnapshotPtr snapshot = snapshots_.load();
    if (snapshot && !snapshot->workloads.find(*proxy)) proxies_.forget(*proxy);
  }

  Result<std::vector<MeshService>> get_services_for_proxy(const std::string& ns,
                                                          const ProxyId& id) const override {
    OSM_TRY(const SnapshotPtr snapshot, current());
    auto entry = snapshot->workloads.find({ns, id, WorkloadKind::kMachine});
    if (!entry) entry = snapshot->workloads.find({ns, id, WorkloadKind::kPod});
    if (!entry)
      return Error{ErrorCode::kUnknownProxy,
                   "no workload of namespace " + ns + " has the proxy UUID " + id.str()};
    return model::own_ports_of(snapshot->services, entry->workload).ports;
  }

  std::vector<certificate::ProxyCertificate> own_proxy_certificates() const override {
    return proxies_.certificates(clock_.wall_now());
  }
  std::vector<certificate::ProxyCertificate> list_proxy_certificates() const override {
    std::vector<certificate::ProxyCertificate> own = own_proxy_certificates();
    if (!elsewhere_) return own;
    const auto place = [](const certificate::ProxyCertificate& one) {
      return std::pair(one.ns, one.proxy_id);
    };
    std::map<std::pair<std::string, ProxyId>, certificate::ProxyCertificate> all;
    for (certificate::ProxyCertificate& one : own) all.emplace(place(one), std::move(one));
    for (certificate::ProxyCertificate& one : elsewhere_().certificates) {
      const bool claimed = one.claimed;
      all.try_emplace(place(one), std::move(one)).first->second.claimed |= claimed;
    }
    std::vector<certificate::ProxyCertificate> out;
    for (auto& [key, one] : all) out.push_back(std::move(one));
    return out;
  }

  Result<PolicyDecision> check_policy(const ServiceIdentity& source,
                                      const ServiceIdentity& destination) const override {
    OSM_TRY(const SnapshotPtr snapshot, current());
    OSM_TRY(find_account(*snapshot, source));
    OSM_TRY(find_account(*snapshot, destination));
    return explain::check_policy(*snapshot, source, destination, spec_.list_problems());
  }

  Result<Explanation> explain(const CallQuestion& question) const override {
    OSM_TRY(const SnapshotPtr snapshot, current());
    std::set<ServiceIdentity> accounts = known_identities(*snapshot);
    for (const ServiceAccount& account : spec_.list_all_service_accounts())
      accounts.insert(identity_of(account));
    std::vector<Problem> left_out = spec_.list_problems();
    left_out.insert(left_out.end(), snapshot->problems->begin(), snapshot->problems->end());
    OSM_TRY(Explanation told, explain::explain(*snapshot, question, accounts, left_out));
    note_connections(*snapshot, told);
    return told;
  }

  std::vector<ProxyId> list_participants() const override {
    std::set<ProxyId> out;
    const SnapshotPtr snapshot = snapshots_.load();
    if (!snapshot) return {};
    for_each_connected(*snapshot, [&](const model::WorkloadEntry& entry) {
      if (has_endpoints(*snapshot, entry.workload)) out.insert(entry.proxy.id);
    });
    return {out.begin(), out.end()};
  }

 private:
  // Calls `visit` for each workload whose proxy is connected here or, as replicas report,
  // elsewhere. One that has just moved may be visited twice.
  template <class Visit>
  void for_each_connected(const model::MeshSnapshot& snapshot, Visit visit) const {
    const auto visit_workload = [&](const model::ProxyKey& proxy) {
      if (const auto entry = snapshot.workloads.find(proxy)) visit(*entry);
    };
    for (const Proxy& proxy : proxies_.connected_proxies()) visit_workload(workload_key(proxy));
    if (elsewhere_)
      for (const model::ProxyKey& proxy : elsewhere_().connected) visit_workload(proxy);
  }

  // Notes the workloads whose proxies are not connected.
  void note_connections(const model::MeshSnapshot& snapshot, Explanation& told) const {
    const auto reached = [](const ExplainedWay& way) {
      return way.answer.allowed && !way.account.empty();
    };
    if (std::none_of(told.ways.begin(), told.ways.end(), reached)) return;
    std::set<std::string> connected;
    for_each_connected(snapshot, [&](const model::WorkloadEntry& entry) {
      connected.insert(entry.workload.address);
    });
    for (ExplainedWay& way : told.ways)
      if (reached(way))
        std::copy_if(way.addresses.begin(), way.addresses.end(),
                     std::back_inserter(way.not_connected),
                     [&](const std::string& address) { return !connected.contains(address); });
  }

  Result<SnapshotPtr> current() const {
    SnapshotPtr snapshot = snapshots_.load();
    if (!snapshot)
      return Error{ErrorCode::kNotReady,
                   "the mesh is not known yet; /health/ready names what is missing"};
    return snapshot;
  }

  static Error unknown_service(const ServiceName& service) {
    return {ErrorCode::kNotFound, "Service " + service.str() +
                                      " is not in the mesh: it does not exist, was left out, or "
                                      "its namespace is not monitored"};
  }

  Result<std::shared_ptr<const model::ServiceEntry>> find_service(
      const ServiceName& service) const {
    OSM_TRY(const SnapshotPtr snapshot, current());
    auto entry = snapshot->services.find(service);
    if (!entry) return unknown_service(service);
    return entry;
  }

  // Failure: kNotFound if neither the snapshot nor the specification has the account.
  Status find_account(const model::MeshSnapshot& snapshot, const ServiceIdentity& identity) const {
    if (is_known(snapshot, identity)) return {};
    const auto accounts = spec_.list_all_service_accounts();
    for (const ServiceAccount& account : accounts)
      if (identity_of(account) == identity) return {};
    return Error{ErrorCode::kNotFound,
                 "service account " + identity.str() +
                     " is not in the mesh: no workload runs as it, no TrafficTarget names it, and "
                     "no ServiceAccount object of a monitored namespace has that name"};
  }

  // Calls `add_peers` for every target that grants something, in SMI mode. A denied identity has no
  // peers and is none.
  template <class AddPeers>
  Result<Identities> list_peers(const ServiceIdentity& identity, AddPeers add_peers) const {
    OSM_TRY(const SnapshotPtr snapshot, current());
    OSM_TRY(find_account(*snapshot, identity));
    const auto& denied = snapshot->denied->accounts;
    std::set<ServiceIdentity> out;
    if (denied.contains(identity)) return Identities();
    if (snapshot->config.proxy.permissive) {
      out = known_identities(*snapshot);
    } else {
      for (const auto& target : snapshot->targets)
        if (target->grants()) add_peers(*target, out);
    }
    std::erase_if(out, [&](const ServiceIdentity& peer) { return denied.contains(peer); });
    return Identities(out.begin(), out.end());
  }

  MeshSpec& spec_;
  SnapshotCell<model::MeshSnapshot>& snapshots_;
  const Clock& clock_;
  const std::function<ProxiesElsewhere()> elsewhere_;
  ConnectedProxies proxies_;
  Subscription snapshots_subscription_;  // last: its callback uses the others
};

}  // namespace

std::unique_ptr<ReplicaCatalog> make_mesh_catalog(const MeshCatalogOptions& options) {
  return std::make_unique<MeshCatalog>(options);
}

}  // namespace osm::inline v1::catalog
