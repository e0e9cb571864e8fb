// Everything that a hub and a server need, in memory: a CA, secrets, a registry, and small meshes.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "certificate/issuance.hpp"
#include "certificate/local_issuer.hpp"
#include "model/names.hpp"
#include "model/secret_source.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/notifier.hpp"
#include "translate/snapshots.hpp"

namespace osm::ads_test {

using certificate::CertificatePtr;

inline const TrustDomain kDomain{"cluster.local"};
inline const ProxyId kClientId{"11111111-1111-4111-8111-111111111111"};
inline const ProxyId kServerId{"22222222-2222-4222-8222-222222222222"};

class TestCa {
 public:
  explicit TestCa(const Clock& clock) : clock_(clock) {
    auto root = certificate::make_root_pem(clock);
    REQUIRE(root.ok());
    pem_ = root->pem();
  }

  std::string root_pem() const { return issuer(kDomain)->trust_bundle_pem(); }
  std::unique_ptr<certificate::Issuer> issuer(const TrustDomain& domain) const {
    auto made = certificate::make_local_issuer(pem_, domain, clock_);
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  CertificatePtr issue(std::string common_name, SpiffeId id, certificate::Usage usage,
                       std::chrono::seconds validity = std::chrono::hours(24)) const {
    const TrustDomain domain = model::trust_domain_of(id);
    const certificate::Subject subject{CommonName(std::move(common_name)), std::move(id), usage};
    auto issued = certificate::issue(*issuer(domain), subject, validity, {}, clock_);
    REQUIRE_MESSAGE(issued.ok(), issued.error().text());
    return std::make_shared<const certificate::Certificate>(*std::move(issued));
  }

  CertificatePtr controller() const {
    return issue("osm-controller", model::controller_spiffe_id(kDomain),
                 certificate::Usage::kController);
  }
  CertificatePtr proxy(const ProxyId& id, const ServiceIdentity& account,
                       std::chrono::seconds validity = std::chrono::hours(24)) const {
    return issue(id.str().substr(0, 8),
                 model::proxy_spiffe_id(kDomain, {id, {account.ns, account.name}}),
                 certificate::Usage::kProxy, validity);
  }
  CertificatePtr workload(const ServiceIdentity& identity,
                          const TrustDomain& domain = kDomain) const {
    return issue(identity.name, spiffe_id(domain, identity), certificate::Usage::kWorkload);
  }

 private:
  const Clock& clock_;
  std::string pem_;  // the key and the root
};

// Issues when asked, or later when `slow`.
class FakeSecrets final : public model::SecretSource {
 public:
  explicit FakeSecrets(const TestCa& ca) : ca_(ca), bundle_(ca.root_pem()) {}

  std::string trust_bundle_pem() const override {
    std::lock_guard lock(mutex_);
    return bundle_;
  }
  Status check_peer(const std::string& leaf_pem, const std::string&) const override {
    std::lock_guard lock(mutex_);
    return leaf_pem.empty() ? Status() : trusts_peers_;
  }
  CertificatePtr certificate_for(const ServiceIdentity& identity) override {
    std::lock_guard lock(mutex_);
    CertificatePtr& held = held_[identity];
    if (!held && !slow) held = ca_.workload(identity);
    return held;
  }
  void release(const ServiceIdentity& identity) override {
    std::lock_guard lock(mutex_);
    held_.erase(identity);
    released.insert(identity);
  }
  Subscription subscribe(OnChange on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

  void set_trusts_peers(Status status) {
    std::lock_guard lock(mutex_);
    trusts_peers_ = std::move(status);
  }
  void set_trust_bundle(std::string pem) {
    {
      std::lock_guard lock(mutex_);
      bundle_ = std::move(pem);
    }
    changed_.notify(std::nullopt);
  }
  void rotate(const ServiceIdentity& identity) {
    {
      std::lock_guard lock(mutex_);
      held_[identity] = ca_.workload(identity, domain);
    }
    changed_.notify(identity);
  }

  bool slow = false;
  TrustDomain domain = kDomain;  // of what is rotated to
  std::set<ServiceIdentity> released;

 private:
  const TestCa& ca_;
  mutable std::mutex mutex_;
  std::string bundle_;
  Status trusts_peers_;  // the result of check_peer()
  std::map<ServiceIdentity, CertificatePtr> held_;
  Notifier<const std::optional<ServiceIdentity>&> changed_;
};

class FakeRegistry final : public ProxyRegistry {
 public:
  void expect_proxy(const certificate::ProxyCertificate&) override {}
  void register_proxy(const Proxy& proxy) override {
    std::lock_guard lock(mutex_);
    connected_.insert(proxy.id);
  }
  void unregister_proxy(const ProxyId& id) override {
    std::lock_guard lock(mutex_);
    connected_.erase(id);
  }
  Result<std::vector<MeshService>> get_services_for_proxy(const std::string&,
                                                          const ProxyId&) const override {
    return std::vector<MeshService>{};
  }
  std::vector<certificate::ProxyCertificate> list_proxy_certificates() const override { return {}; }

  std::set<ProxyId> connected() const {
    std::lock_guard lock(mutex_);
    return connected_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<ProxyId> connected_;
};

inline model::WorkloadEntry workload(const ProxyId& id, const ServiceIdentity& account,
                                     std::vector<ServiceName> services) {
  model::WorkloadEntry entry;
  entry.proxy = {account.ns, id};
  entry.workload.name = {account.ns, account.name + "-vm"};
  entry.workload.proxy_id = id;
  entry.workload.account = {account.ns, account.name};
  entry.workload.address = "10.1.0.1";
  entry.workload.services = std::move(services);
  return entry;
}

// The worked example with its two workloads; every step makes a new generation of it.
class TestMesh {
 public:
  TestMesh() : mesh_(translate_test::worked_example()) {
    put(workload(kClientId, translate_test::kClient, {}));
    put(workload(kServerId, translate_test::kServer, {translate_test::kServerService}));
    changes_ = {};
    changes_.everything = true;
  }

  void put(model::WorkloadEntry entry) {
    changes_.workloads.insert(entry.proxy);
    mesh_.snapshot.workloads = mesh_.snapshot.workloads.with(
        std::make_shared<const model::WorkloadEntry>(std::move(entry)));
  }
  void put(model::ServiceEntry entry) {
    changes_.services.insert(entry.name);
    mesh_.put(std::move(entry));
  }
  void put(model::TelemetryEntry entry) {
    changes_.telemetries.insert(entry.name);
    mesh_.snapshot.telemetries = mesh_.snapshot.telemetries.with(
        std::make_shared<const model::TelemetryEntry>(std::move(entry)));
  }
  void remove_service(const ServiceName& name) {
    changes_.services.insert(name);
    changes_.endpoints.insert(name);
    mesh_.snapshot.services = mesh_.snapshot.services.without(name);
    mesh_.snapshot.endpoints = mesh_.snapshot.endpoints.without(name);
  }
  void set_domains(const std::vector<std::string>& accepted,
                   const std::vector<std::string>& allowed) {
    mesh_.domains(allowed);
    mesh_.snapshot.accepted_domains = std::vector<TrustDomain>(accepted.begin(), accepted.end());
    changes_.everything = true;
  }
  // Not part of any resource: `changes` stays as it is.
  void set_max_proxies(std::size_t most) { mesh_.snapshot.config.max_proxies = most; }
  void set_proxy_validity(std::chrono::seconds validity) {
    mesh_.snapshot.config.certificates.proxy_validity = validity;
  }
  void remove_workload(const model::ProxyKey& key) {
    changes_.workloads.insert(key);
    mesh_.snapshot.workloads = mesh_.snapshot.workloads.without(key);
  }
  void set_endpoints(std::vector<std::string> addresses) {
    model::ServiceEndpoints endpoints{translate_test::kServerService, {}};
    for (std::string& address : addresses)
      endpoints.endpoints.push_back(
          translate_test::endpoint_at(std::move(address), 14001, translate_test::kServer));
    changes_.endpoints.insert(translate_test::kServerService);
    mesh_.put(std::move(endpoints));
  }
  void allow(bool allowed) {
    using namespace translate_test;
    if (allowed) {
      mesh_.put(kClient, {upstream(kServerService, {kServer})});
      mesh_.put(kServer, {}, {http_target("tt", {kClient}, {{"ok", "/status/.*", {"GET"}, {}}})});
    } else {
      mesh_.put(kClient, {});
      mesh_.put(kServer, {}, {});
    }
    changes_.identities.insert(kClient);
    changes_.identities.insert(kServer);
  }
  // Its number for what the server admits is `admits`.
  void admit(std::vector<ServiceIdentity> sources, std::uint64_t admits) {
    using namespace translate_test;
    mesh_.put(kServer, {}, {http_target("tt", std::move(sources), {{"ok", "/", {"GET"}, {}}})});
    auto policy = std::make_shared<model::IdentityPolicy>(*mesh_.snapshot.policies.find(kServer));
    policy->admits = admits;
    mesh_.snapshot.policies = mesh_.snapshot.policies.with(std::move(policy));
    changes_.identities.insert(kServer);
  }

  std::shared_ptr<const model::MeshSnapshot> next() {
    mesh_.snapshot.generation = ++generation_;
    mesh_.snapshot.changes = std::exchange(changes_, {});
    return std::make_shared<const model::MeshSnapshot>(mesh_.snapshot);
  }

 private:
  translate_test::Mesh mesh_;
  model::Changes changes_;
  std::uint64_t generation_ = 0;
};

}  // namespace osm::ads_test
