#include "osm/control_plane.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "ads/ads_server.hpp"
#include "base/may_wait.hpp"
#include "base/pulse.hpp"
#include "base/watched_executor.hpp"
#include "catalog/mesh_catalog.hpp"
#include "catalog/mesh_loop.hpp"
#include "catalog/proxy_registry.hpp"
#include "certificate/service_certificates.hpp"
#include "control_plane/machine_drains.hpp"
#include "control_plane/problem_journal.hpp"
#include "control_plane/proxy_renewals.hpp"
#include "control_plane/receipts.hpp"
#include "control_plane/replica_reports.hpp"
#include "model/names.hpp"
#include "nack_provenance/nack_provenance.hpp"
#include "nack_provenance/verdicts.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "root_rotation/target.hpp"

namespace osm::inline v1::control_plane {
namespace {

constexpr std::chrono::seconds kGrace{1};

// Constructed top to bottom, destroyed bottom to top.
class Impl final : public ControlPlane, private root_rotation::Target {
 public:
  explicit Impl(const ControlPlaneOptions& options)
      : options_(options),
        trust_domains_(names(options.root_rotation ? options.root_rotation->trust_domains()
                                                   : TrustDomains(options.trust_domain))),
        secrets_({.manager = options.certificates,
                  .runtime = options.runtime,
                  .trust_domain = trust_domains_.signing,
                  .validity =
                      [&spec = options.spec] {
                        return spec.get_mesh_config().certificates.service_validity;
                      }}),
        readiness_(options.board, options.runtime.clock),
        loop_({.spec = options.spec,
               .providers = options.providers,
               .workload_providers = options.workload_providers,
               .trust_domain = trust_domains_,
               .runtime = options.runtime,
               .readiness = &readiness_}),
        catalog_(catalog::make_mesh_catalog({.spec = options.spec,
                                             .snapshots = loop_.snapshots(),
                                             .clock = options.runtime.clock,
                                             .elsewhere = [this] { return elsewhere(); }})),
        verdicts_(options.osm_namespace, [this](const ObjectKey& key) { return concerned(key); }),
        reporting_("reports to other replicas", options.runtime.blocking, options.runtime.clock),
        journal_("list of problems", options.runtime.executor, options.runtime.clock,
                 Pulse::kHangs),
        searches_("search for refused objects", options.runtime.executor, options.runtime.clock),
        reports_({.board = options.board,
                  .runtime = with_executors(options.runtime.executor, reporting_),
                  .mesh = loop_,
                  .verdicts = verdicts_,
                  .certificates = [this] { return catalog_->own_proxy_certificates(); }}),
        problems_({.spec = options.spec,
                   .workloads = options.workload_providers,
                   .snapshots = loop_.snapshots(),
                   .roots = root_problems(options),
                   .refused = [this] { return refused(); }},
                  journal_, options.runtime.log, options.runtime.metrics),
        verdicts_changed_(verdicts_.subscribe([this] { problems_.check_again(); })),
        reports_changed_(reports_.subscribe([this] {
          problems_.check_again();
          problems_.announce();
        })) {}

  ~Impl() override {
    require_may_wait(options_.runtime.executor, "~ControlPlane");
    static_cast<void>(shutdown(kGrace).ok());
  }

  Status start() {
    if (!options_.ads_address.empty()) {
      OSM_TRY(certificate_, certificate::KeptCertificate::issue(
                                options_.certificates, subject(trust_domains_.controller)));
    }
    renewals_ = std::make_unique<ProxyRenewals>(ProxyRenewalsOptions{
        .certificates = options_.certificates,
        .spec = options_.spec,
        .runtime = options_.runtime,
        .trust_domains = [this] { return trust_domains(); },
        .proxy_subject = [this](const Workload& workload) { return proxy_subject(workload); },
        .issue = [this](const auto&... arguments) { return certify_proxy(arguments...); },
        .workload_subject =
            [this](const Workload& workload) {
              return certificate::service_subject(trust_domains().signing,
                                                  identity_of(workload.account));
            },
        .issue_workload =
            [this](const auto&... arguments) { return certify_workload(arguments...); }});
    if (options_.drained)
      drains_ = std::make_unique<MachineDrains>(
          MachineDrainsOptions{.drained = *options_.drained,
                               .runtime = options_.runtime,
                               .status = [this](const ObjectKey& object) -> Result<ObjectStatus> {
                                 if (!started_)
                                   return Error{ErrorCode::kNotReady, "the controller starts"};
                                 return object_status(object);
                               }});
    OSM_TRY(ads_,
            ads::AdsServer::start({.address = options_.ads_address,
                                   .connections = options_.ads_connections,
                                   .accepted_domains = trust_domains_.accepted,
                                   .max_transport_bytes = options_.max_transport_bytes,
                                   .replica = options_.replica,
                                   .rebalance = options_.rebalance,
                                   .server_certificate = [this] { return certificate_->load(); }},
                                  {.runtime = options_.runtime,
                                   .snapshots = loop_.snapshots(),
                                   .secrets = secrets_,
                                   .registry = *catalog_,
                                   .hook = options_.resource_hook,
                                   .renew_certificate =
                                       [this](auto question, auto done) {
                                         renewals_->answer(std::move(question), std::move(done));
                                       },
                                   .drain_machine = drain_machine(),
                                   .board = options_.board,
                                   .admits = options_.admits,
                                   .announced_at = [this] { return loop_.announced_at(); },
                                   .readiness = &readiness_}));
    progress_ = ads_->subscribe_progress([this](const auto*) { problems_.announce(); });
    receipts_ = std::make_unique<Receipts>(ReceiptsOptions{
        .mesh = loop_,
        .proxies = *ads_,
        .spec = options_.spec,
        .problems = [this] { return problems_.list(); },
        .refusing = [this](const ObjectKey& object) { return verdicts_.refusing(object); },
        .others = [this] { return reports_.others(); },
        .subscribe_others = [this](auto call) { return reports_.subscribe(std::move(call)); }});
    started_ = true;
    reports_.start(*ads_);
    provenance_ =
        std::make_unique<nack_provenance::NackProvenance>(nack_provenance::NackProvenanceOptions{
            .runtime = with_executors(searches_, options_.runtime.blocking),
            .verdicts = verdicts_,
            .snapshots = loop_.snapshots(),
            .proxies = *ads_,
            .inputs = {options_.providers, options_.workload_providers,
                       [this] { return trust_domains(); }},
            .elsewhere = [this] { return reports_.refusals(); }});
    if (options_.root_rotation) {
      OSM_TRY(options_.root_rotation->attach(*this));
      attached_ = true;
    }
    return {};
  }

  std::string ads_address() const override { return ads_->address(); }
  MeshCataloger& catalog() const override { return *catalog_; }
  ControlPlaneStatus status() const override {
    ControlPlaneStatus status{loop_.waiting_for(), loop_.providers(), problems_.list()};
    if (const auto mesh = loop_.snapshots().load()) {
      status.generation = mesh->generation;
      status.mesh_hash = mesh->hash;
    }
    if (const Status accepts = ads_->health(); !accepts.ok())
      status.waiting_for.push_back("ADS listener: " + accepts.error().message);
    status.full = ads_->full();
    for (const Status& alive :
         {loop_.alive(), ads_->alive(), journal_.check(), reporting_.check(), searches_.check()})
      if (!alive.ok()) status.hanging.push_back(alive.error().message);
    status.waiting_for.insert(status.waiting_for.end(), status.hanging.begin(),
                              status.hanging.end());
    return status;
  }
  Subscription subscribe(std::function<void()> on_change) override {
    return problems_.subscribe(std::move(on_change));
  }

  certificate::Subject proxy_subject(const Workload& workload) const override {
    const ServiceName named = workload.services.empty()
                                  ? ServiceName{workload.name.ns, workload.name.name}
                                  : workload.services.front();
    return {workload.kind == WorkloadKind::kPod
                ? model::pod_common_name(workload.proxy_id, workload.name.ns)
                : model::proxy_common_name(workload.proxy_id, named),
            model::proxy_spiffe_id(trust_domains().signing,
                                   {workload.proxy_id, workload.account, workload.kind}),
            certificate::Usage::kProxy};
  }

  Result<certificate::CertificatePtr> issue_proxy_certificate(
      const Workload& workload, const std::string& request_pem, std::chrono::seconds validity,
      const certificate::Requester& requester) override {
    OSM_TRY(check_may_wait(options_.runtime.executor, "ControlPlane::issue_proxy_certificate"));
    return certify_proxy(workload, request_pem, validity, requester);
  }

  std::vector<Proxy> list_proxies() const override {
    std::vector<Proxy> proxies = ads_->list_proxies();
    std::set<model::ProxyKey> own;
    for (Proxy& proxy : proxies) {
      own.insert(catalog::workload_key(proxy));
      if (reports_.shares()) proxy.replica = options_.replica;
    }
    for_each_elsewhere([&](const auto& entry, const ProxyLine& line, const OtherReplica& replica) {
      if (line.presence == ProxyLine::Presence::kConnected && !own.contains(entry.proxy))
        proxies.push_back(proxy_of(entry, line, replica, proxy_subject(entry.workload).common_name,
                                   options_.runtime.clock));
    });
    std::ranges::sort(proxies, {}, &Proxy::workload);
    return proxies;
  }
  Result<std::string> config_dump(const std::string& proxy) const override {
    auto dump = ads_->config_dump(proxy);
    if (dump.ok() || dump.error().code != ErrorCode::kNotFound) return dump;
    for (const Proxy& one : list_proxies())
      if (one.id.str() == proxy || one.workload.str() == proxy || one.workload.name == proxy)
        return Error{ErrorCode::kNotFound, "proxy " + proxy + " is connected to " + one.replica +
                                               ", which alone has its configuration: ask it"};
    return dump;
  }

  Result<ObjectStatus> object_status(const ObjectKey& object) const override {
    OSM_TRY(check_may_wait(options_.runtime.executor, "ControlPlane::object_status"));
    return receipts_->status(object);
  }
  Result<ObjectStatus> wait_until_applied(const ObjectKey& object,
                                          std::chrono::milliseconds timeout) const override {
    OSM_TRY(check_may_wait(options_.runtime.executor, "ControlPlane::wait_until_applied"));
    return receipts_->wait_until_applied(object, timeout);
  }

  void refresh_resources() override { ads_->refresh_resources(); }

  Status set_trust_domains(const TrustDomains& trust_domains) override {
    {
      const std::lock_guard lock(mutex_);
      trust_domains_ = names(trust_domains);
    }
    loop_.set_trust_domains(names(trust_domains));
    ads_->set_accepted_domains(trust_domains.accepted);
    secrets_.set_trust_domain(trust_domains.signing);
    return certificate_ ? certificate_->change_subject(subject(trust_domains.controller))
                        : Status();
  }

  Result<model::CertificateProgress> certificate_progress(
      const model::CertificateGoal& goal) const override {
    OSM_TRY(check_may_wait(options_.runtime.executor, "ControlPlane::certificate_progress"));
    return ads_->certificate_progress(goal);
  }
  void recall_proxies(const std::string& issuer_key_id) override { ads_->recall(issuer_key_id); }
  void root_problems_changed() override { problems_.check_again(); }

  Status shutdown(std::chrono::milliseconds deadline) override {
    OSM_TRY(check_may_wait(options_.runtime.executor, "ControlPlane::shutdown"));
    if (attached_) options_.root_rotation->stop();
    if (receipts_) receipts_->stop();
    Status ended = ads_ ? ads_->shutdown(deadline) : Status();
    readiness_.stop();
    if (renewals_) renewals_->stop();
    if (drains_) drains_->stop();
    if (provenance_) provenance_->stop();
    reports_.stop();
    reports_changed_.reset();
    verdicts_changed_.reset();
    problems_.stop();
    loop_.stop();
    secrets_.stop();
    certificate_.reset();
    return ended;
  }

 private:
  ads::DrainMachine drain_machine() const {
    if (!drains_) return {};
    return [&drains = *drains_](auto workload, auto done) {
      drains.answer(std::move(workload), std::move(done));
    };
  }

  Runtime with_executors(Executor& executor, Executor& blocking) const {
    const Runtime& runtime = options_.runtime;
    return {executor, blocking, runtime.clock, runtime.rng, runtime.log, runtime.metrics};
  }

  // All refused objects, whichever replica's proxies refuse them.
  std::vector<Problem> refused() const { return verdicts_.problems(reports_.refusals()); }

  template <class Visit>
  void for_each_elsewhere(Visit visit) const {
    if (const auto mesh = loop_.snapshots().load())
      control_plane::for_each_elsewhere(*reports_.others(), *mesh, visit);
  }

  catalog::ProxiesElsewhere elsewhere() const {
    catalog::ProxiesElsewhere found;
    for_each_elsewhere([&](const auto& entry, const ProxyLine& line, const auto&) {
      if (line.presence == ProxyLine::Presence::kReturning) return;
      if (line.presence == ProxyLine::Presence::kConnected) found.connected.push_back(entry.proxy);
      found.certificates.push_back({.common_name = proxy_subject(entry.workload).common_name,
                                    .proxy_id = entry.proxy.id,
                                    .ns = entry.proxy.ns,
                                    .not_after = line.not_after,
                                    .claimed = line.claimed});
    });
    return found;
  }

  // Number of connected proxies that the object concerns, at all replicas.
  std::size_t concerned(const ObjectKey& object) const {
    const catalog::ObjectState state = loop_.object_state(object);
    if (!state.snapshot) return 0;
    const auto workloads = catalog::workloads_in(state.scope, *state.snapshot);
    return static_cast<std::size_t>(std::ranges::count_if(workloads, [this](const auto& entry) {
      return readiness_.readiness_of(entry->proxy, {}) != model::Readiness::kUnknown;
    }));
  }

  static std::function<std::vector<Problem>()> root_problems(const ControlPlaneOptions& options) {
    if (!options.root_rotation) return {};
    return [&roots = *options.root_rotation, &clock = options.runtime.clock] {
      return problems_of(roots.status(), clock.wall_now());
    };
  }

  // Failure: kPermissionDenied (a Denylist), the CA's. Blocking: until the CA answers.
  Result<certificate::CertificatePtr> certify_proxy(const Workload& workload,
                                                    const std::string& request_pem,
                                                    std::chrono::seconds validity,
                                                    const certificate::Requester& requester) {
    OSM_TRY(not_denied(workload));
    const certificate::Subject subject = proxy_subject(workload);
    auto issued = options_.certificates.certify_request(subject, request_pem, validity, requester);
    if (issued.ok())
      catalog_->expect_proxy({.common_name = subject.common_name,
                              .proxy_id = workload.proxy_id,
                              .ns = workload.name.ns,
                              .not_after = (*issued)->not_after});
    reports_.touch();
    return issued;
  }

  // Certifies the key of a machine's files for its workload. Failure, blocking: as above.
  Result<certificate::CertificatePtr> certify_workload(const Workload& workload,
                                                       const std::string& request_pem,
                                                       std::chrono::seconds validity,
                                                       const certificate::Requester& requester) {
    OSM_TRY(not_denied(workload));
    return options_.certificates.certify_request(
        certificate::service_subject(trust_domains().signing, identity_of(workload.account)),
        request_pem, validity, requester);
  }

  // Failure: kPermissionDenied (a Denylist).
  Status not_denied(const Workload& workload) const {
    const auto snapshot = loop_.snapshots().load();
    const Denial* denial =
        snapshot ? snapshot->denied->find(workload.proxy_id, identity_of(workload.account))
                 : nullptr;
    if (denial != nullptr)
      return Error{ErrorCode::kPermissionDenied,
                   workload.name.str() + " gets no certificate: " + denial->text()};
    return {};
  }

  // A root rotation knows the domains only.
  TrustDomains names(TrustDomains domains) const {
    domains.osm_v1_names = options_.accept_osm_v1_identities;
    return domains;
  }

  TrustDomains trust_domains() const {
    const std::lock_guard lock(mutex_);
    return trust_domains_;
  }

  certificate::Subject subject(const TrustDomain& domain) const {
    return certificate::controller_subject(domain, options_.osm_namespace);
  }

  const ControlPlaneOptions options_;
  mutable std::mutex mutex_;
  TrustDomains trust_domains_;  // guarded by mutex_
  bool attached_ = false;       // to the root rotation
  std::atomic<bool> started_ = false;
  certificate::ServiceCertificates secrets_;
  ads::ReadinessTable readiness_;
  mutable catalog::MeshLoop loop_;
  std::unique_ptr<catalog::ReplicaCatalog> catalog_;
  nack_provenance::Verdicts verdicts_;
  WatchedExecutor reporting_;  // a report waits for the strand of streams
  WatchedExecutor journal_;
  WatchedExecutor searches_;  // a change may build a mesh for each set of refused objects
  ReplicaReports reports_;
  ProblemJournal problems_;
  Subscription verdicts_changed_;
  Subscription reports_changed_;
  std::unique_ptr<certificate::KeptCertificate> certificate_;
  std::unique_ptr<nack_provenance::NackProvenance>
      provenance_;                           // outlives the server, whose strand calls it
  std::unique_ptr<ProxyRenewals> renewals_;  // and this
  std::unique_ptr<MachineDrains> drains_;    // and this
  std::unique_ptr<ads::AdsServer> ads_;
  std::unique_ptr<Receipts> receipts_;
  Subscription progress_;
};

}  // namespace
}  // namespace osm::inline v1::control_plane

namespace osm::inline v1 {

Result<std::unique_ptr<ControlPlane>> ControlPlane::start(const ControlPlaneOptions& options) {
  auto control_plane = std::make_unique<control_plane::Impl>(options);
  OSM_TRY(control_plane->start());
  return std::unique_ptr<ControlPlane>(std::move(control_plane));
}

}  // namespace osm::inline v1
