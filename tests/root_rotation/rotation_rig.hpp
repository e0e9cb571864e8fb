// Replicas that rotate the roots of one mesh, with a record, a board and proxies of the test's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "certificate/local_issuer.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/notifier.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "root_rotation/rotation_text.hpp"
#include "root_rotation/target.hpp"

namespace osm::root_rotation::rig {

using std::chrono::hours;
using std::chrono::seconds;

// One record, as a cluster would keep it.
class MemoryRecord final : public TextRecord {
 public:
  std::string name() const override { return "the record"; }
  Result<Text> load() override {
    ++loads;
    return Text{text, std::to_string(version)};
  }
  Status store(const Text& next) override {
    if (next.version != std::to_string(version)) return Error{ErrorCode::kConflict, "changed"};
    text = next.text;
    ++version;
    return {};
  }
  std::string text;
  int version = 0;
  int loads = 0;
};

// Reports of all replicas, and each one's way to them.
struct Wall {
  std::map<std::string, std::string> said;
  Notifier<> changed;
};
class WallBoard final : public ReplicaBoard {
 public:
  // `may_lead`: this replica leads while it has a handle.
  WallBoard(Wall& wall, std::string name, const bool& may_lead)
      : wall_(wall), name_(std::move(name)), may_lead_(may_lead) {}
  Status publish(const std::string&, std::string text) override {
    if (std::exchange(wall_.said[name_], text) != text) wall_.changed.notify();
    return {};
  }
  Result<std::map<std::string, std::string>> read(const std::string&) const override {
    return wall_.said;
  }
  Subscription subscribe(std::function<void()> on_change) override {
    return wall_.changed.subscribe(std::move(on_change));
  }
  bool leads() const override { return may_lead_ && stands; }
  Subscription stand(std::function<void()>) override {
    stands = true;
    return Subscription(
        std::shared_ptr<void>(&stands, [](void* handle) { *static_cast<bool*>(handle) = false; }));
  }

  bool stands = false;

 private:
  Wall& wall_;
  const std::string name_;
  const bool& may_lead_;
};

struct NoRandom final : Rng {
  std::uint64_t next() override { return 0; }
};

inline const TrustDomain kDomain("cluster.local");

inline std::shared_ptr<certificate::Issuer> new_ca(const Clock& clock,
                                                   const TrustDomain& domain = kDomain) {
  const certificate::PrivateKey pem = certificate::make_root_pem(clock).value();
  return certificate::make_local_issuer(pem.pem(), domain, clock).value();
}

// Shared by all replicas.
struct Mesh {
  testing::ManualClock clock;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  NoRandom rng;
  testing::MemoryMeshSpec spec;
  MemoryRecord record;
  Wall wall;
  std::shared_ptr<certificate::Issuer> own = new_ca(clock);
  std::map<std::string, std::shared_ptr<certificate::Issuer>> cas;
  RootRules rules;
  std::map<std::string, MeshRootCertificate> opened;  // objects whose CAs were opened last

  explicit Mesh(RootRules allowed = {}) : rules(std::move(allowed)) { spec.set_synced(true); }
  Runtime runtime(Executor& executor) { return {executor, executor, clock, rng, log, metrics}; }
  void wish(const std::string& name, RootRole role, const TrustDomain& domain = kDomain) {
    spec.put(MeshRootCertificate{.name = name, .trust_domain = domain, .role = role});
  }
  std::map<std::string, RootState> states() const {
    std::map<std::string, RootState> states;
    const auto records = root_rotation::parse_records(record.text);
    for (const RootRecord& root : records.value()) states[root.name] = root.state;
    return states;
  }
};

inline model::ProxyKey proxy_of(const std::string& name) {
  return {"shop", ProxyId(name), WorkloadKind::kMachine};
}

// The mesh's workloads, all of namespace shop, and what those that are connected lack.
struct Proxies {
  std::vector<std::string> workloads;
  std::map<std::string, model::CertificateLag> connected;

  void connect(const std::string& name) {
    workloads.push_back(name);
    connected[name] = {};
  }
  Table<model::WorkloadEntry> table() const {
    std::vector<std::shared_ptr<const model::WorkloadEntry>> entries;
    for (const std::string& name : workloads) {
      model::WorkloadEntry entry;
      entry.proxy = proxy_of(name);
      entry.workload.name = {"shop", name};
      entries.push_back(std::make_shared<const model::WorkloadEntry>(entry));
    }
    return Table<model::WorkloadEntry>(std::move(entries));
  }
  model::CertificateProgress progress() const {
    model::CertificateProgress progress{.workloads = table()};
    for (const auto& [name, lacks] : connected)
      progress.proxies.emplace_back(proxy_of(name), lacks);
    return progress;
  }
};

// A control plane whose proxies report what the test says.
struct Served final : root_rotation::Target {
  Status set_trust_domains(const TrustDomains& domains) override {
    told.push_back(domains);
    return {};
  }
  Result<model::CertificateProgress> certificate_progress(
      const model::CertificateGoal&) const override {
    return proxies.progress();
  }
  void recall_proxies(const std::string& issuer_key_id) override {
    recalled.push_back(issuer_key_id);
  }

  void root_problems_changed() override { ++problem_changes; }

  Proxies proxies;
  std::vector<TrustDomains> told;
  std::vector<std::string> recalled;
  int problem_changes = 0;
};

struct Replica {
  Replica(Mesh& m, const std::string& name, Served* served = nullptr)
      : mesh(m), executor(m.clock), board(m.wall, name, leads) {
    rotation = RootRotation::start({.runtime = mesh.runtime(executor),
                                    .spec = mesh.spec,
                                    .record = mesh.record,
                                    .board = &board,
                                    .own = mesh.own,
                                    .rules = mesh.rules,
                                    .open = [this](const AllowedRoot& root)
                                        -> Result<std::shared_ptr<certificate::Issuer>> {
                                      mesh.opened[root.object().name] = root.object();
                                      auto& ca = mesh.cas[root.object().name];
                                      if (!ca) ca = new_ca(mesh.clock, root.object().trust_domain);
                                      return ca;
                                    },
                                    .trust_domain = kDomain,
                                    .proxy_recall_interval = seconds(5),
                                    .max_wait = std::chrono::minutes(10)})
                   .value();
    manager = certificate::make_manager(
        {.issuer = rotation->issuer(),
         .runtime = {executor, executor, mesh.clock, mesh.rng, mesh.log, mesh.metrics}});
    REQUIRE(manager->issue_certificate(subject(rotation->trust_domains().signing), hours(24)).ok());
    if (served) REQUIRE(rotation->attach(*served).ok());
    CHECK_FALSE(board.stands);  // a replica that starts keeps nobody from leading
    rotation->follow({.manager = *manager,
                      .kept_lag = [this] { return std::optional<std::size_t>(kept_lag); },
                      .on_trust_domains = [this](const auto& domains) { return rename(domains); }});
  }
  ~Replica() { rotation->stop(); }

  static certificate::Subject subject(const TrustDomain& domain) {
    return {CommonName("web.shop." + domain.str()), spiffe_id(domain, {"shop", "web"})};
  }
  // As whoever keeps certificates does.
  Status rename(const TrustDomains& domains) {
    told.push_back(domains);
    if (deaf) return Error{ErrorCode::kUnavailable, "not now"};
    if (auto issued = manager->issue_certificate(subject(domains.signing), hours(24)); !issued)
      return issued.error();
    for (const auto& held : manager->list_certificates())
      if (held->subject != subject(domains.signing))
        manager->release_certificate(held->subject.common_name);
    return {};
  }
  certificate::CertificatePtr leaf() { return manager->list_certificates().at(0); }

  Mesh& mesh;
  bool leads = true;
  std::size_t kept_lag = 0;
  bool deaf = false;
  std::vector<TrustDomains> told;
  testing::ManualExecutor executor;
  WallBoard board;
  std::unique_ptr<RootRotation> rotation;
  std::unique_ptr<certificate::Manager> manager;
};

inline void run(Mesh& mesh, std::vector<Replica*> replicas, int rounds = 60) {
  for (int i = 0; i < rounds; ++i) {
    for (Replica* replica : replicas) replica->executor.run_until_idle();
    mesh.clock.advance(seconds(1));
  }
}

inline RootStatus status_of(Replica& replica, const std::string& root) {
  for (const RootStatus& one : replica.rotation->status())
    if (one.name == root) return one;
  return {};
}

}  // namespace osm::root_rotation::rig
