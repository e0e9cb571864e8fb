#include "controller.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "admin_api.hpp"
#include "ads/ads_server.hpp"
#include "base/system.hpp"
#include "catalog/mesh_catalog.hpp"
#include "catalog/mesh_loop.hpp"
#include "certificate/directory_ca.hpp"
#include "certificate/manager.hpp"
#include "certificate/service_certificates.hpp"
#include "daemons/version.hpp"
#include "http_side.hpp"
#include "net/http_server.hpp"
#include "net/prometheus_registry.hpp"
#include "problem_journal.hpp"
#include "server_certificate.hpp"
#include "spec/directory_store.hpp"
#include "spec/mesh_spec.hpp"
#include "state_dir.hpp"
#include "threads.hpp"
#include "vm/vm_provider.hpp"

namespace osm::controller {
namespace {

// Issuing and administration may wait; they do it here.
constexpr unsigned kBlockingThreads = 4;

class ControllerImpl final : public Controller {
 public:
  ControllerImpl(const Options& options, StateDir state, const Clock& clock, LogSink& log)
      : options_(options), state_(std::move(state)), clock_(clock), log_(log) {}

  Status start() {
    describe_metrics(metrics_);
    metrics_.set("osm_version_info", {{"version", kVersion}, {"git_commit", kCommit}}, 1);
    for (const auto step : {&ControllerImpl::start_mesh, &ControllerImpl::start_certificates,
                            &ControllerImpl::start_catalog, &ControllerImpl::start_servers})
      if (Status done = (this->*step)(); !done.ok()) return done;
    return {};
  }

  std::string ads_address() const override { return ads_->address(); }
  std::string http_address() const override { return http_->address().str(); }
  std::string admin_address() const override { return admin_->address().str(); }

  void shutdown(std::chrono::milliseconds deadline) override {
    stopping_ = true;  // not ready, while streams end
    const auto report = [this](const Status& status) {
      if (!status.ok()) log_.warning("shutting down", {{"cause", status.error().message}});
    };
    report(ads_->shutdown(deadline / 2));
    report(admin_->stop(deadline / 4));
    report(http_->stop(deadline / 4));
    loop_->stop();
  }

 private:
  Status start_mesh() {
    OSM_TRY(store_, spec::make_directory_store({.directory = options_.mesh_dir,
                                                .executor = io_.executor(),
                                                .watcher = io_.executor(),
                                                .clock = clock_,
                                                .log = log_,
                                                .metrics = metrics_}));
    spec_ = spec::make_mesh_spec({.store = *store_,
                                  .mesh_name = options_.mesh_name,
                                  .osm_namespace = options_.osm_namespace,
                                  .log = log_,
                                  .metrics = metrics_});
    vms_ = vm::make_vm_provider({.store = *store_,
                                 .mesh_spec = *spec_,
                                 .trust_domain = options_.trust_domain,
                                 .log = log_,
                                 .metrics = metrics_});
    return {};
  }

  Status start_certificates() {
    OSM_TRY(auto issuer,
            certificate::load_or_create_directory_ca({.directory = state_.file("ca"),
                                                      .trust_domain = options_.trust_domain,
                                                      .clock = clock_}));
    manager_ = certificate::make_manager(
        {.issuer = std::move(issuer),
         .executor = blocking_.executor(),
         .clock = clock_,
         .rng = rng_,
         .log = log_,
         .metrics = metrics_,
         .key_parameters = [this] {
           const MeshConfig config = spec_->get_mesh_config();
           return certificate::KeyParameters{config.key_type, config.rsa_key_bits};
         }});
    secrets_ = certificate::make_service_certificates(
        {.manager = *manager_,
         .executor = blocking_.executor(),
         .clock = clock_,
         .trust_domain = options_.trust_domain,
         .validity = [this] { return spec_->get_mesh_config().service_certificate_validity; },
         .log = log_,
         .metrics = metrics_});
    OSM_TRY(certificate_,
            ServerCertificate::issue(*manager_, options_.trust_domain, options_.osm_namespace));
    return {};
  }

  Status start_catalog() {
    loop_ = std::make_unique<catalog::MeshLoop>(
        catalog::MeshLoopOptions{.spec = *spec_,
                                 .providers = {{.provider = vms_.get(), .required = true}},
                                 .workload_providers = {vms_.get()},
                                 .trust_domain = options_.trust_domain,
                                 .executor = io_.executor(),
                                 .clock = clock_,
                                 .log = log_,
                                 .metrics = metrics_});
    catalog_ = catalog::make_mesh_catalog(
        {.spec = *spec_, .snapshots = loop_->snapshots(), .clock = clock_});
    problems_ = std::make_unique<ProblemJournal>(ProblemSources{*spec_, *vms_, loop_->snapshots()},
                                                 io_.executor(), log_, metrics_);
    return {};
  }

  Status start_servers() {
    OSM_TRY(ads_,
            ads::AdsServer::start({.address = options_.ads_address.str(),
                                   .trust_domain = options_.trust_domain,
                                   .server_certificate = [this] { return certificate_->load(); }},
                                  {.executor = io_.executor(),
                                   .clock = clock_,
                                   .rng = rng_,
                                   .log = log_,
                                   .metrics = metrics_,
                                   .snapshots = loop_->snapshots(),
                                   .secrets = *secrets_,
                                   .registry = *catalog_}));
    // Its handlers wait for nothing, so health also tells that the mesh's threads are free.
    OSM_TRY(http_, net::HttpServer::start(
                       {.listen = options_.http_address}, io_.executor(), io_.executor(),
                       make_http_side({.metrics = metrics_,
                                       .missing = [this] { return missing(); },
                                       .problems = [this] { return problems_->list(); }}),
                       log_));
    OSM_TRY(admin_, net::HttpServer::start(
                        {.listen = {.unix_path = state_.file("admin.sock")}}, io_.executor(),
                        blocking_.executor(),
                        make_admin_api({.trust_domain = options_.trust_domain,
                                        .clock = clock_,
                                        .log = log_,
                                        .store = *store_,
                                        .spec = *spec_,
                                        .workloads = *vms_,
                                        .manager = *manager_,
                                        .catalog = *catalog_,
                                        .ads = *ads_,
                                        .problems = [this] { return problems_->list(); }}),
                        log_));
    return {};
  }

  // What readiness waits for; with the files that are in the way, since those are what to mend.
  std::vector<std::string> missing() const {
    if (stopping_) return {"nothing: the controller is shutting down"};
    std::vector<std::string> missing = loop_->waiting_for();
    if (missing.empty()) return missing;
    for (const Problem& problem : store_->list_problems()) missing.push_back(problem.text());
    return missing;
  }

  const Options options_;
  const StateDir state_;
  const Clock& clock_;
  LogSink& log_;
  RandomRng rng_;
  net::PrometheusRegistry metrics_;
  std::atomic<bool> stopping_{false};

  Threads io_{std::max(2U, std::thread::hardware_concurrency())};
  Threads blocking_{kBlockingThreads};

  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<vm::VmProvider> vms_;
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<model::SecretSource> secrets_;
  std::unique_ptr<ServerCertificate> certificate_;
  std::unique_ptr<catalog::MeshLoop> loop_;
  std::unique_ptr<MeshCataloger> catalog_;
  std::unique_ptr<ProblemJournal> problems_;
  std::unique_ptr<ads::AdsServer> ads_;
  std::unique_ptr<net::HttpServer> http_;
  std::unique_ptr<net::HttpServer> admin_;
};

}  // namespace

Result<std::unique_ptr<Controller>> Controller::start(const Options& options, const Clock& clock,
                                                      LogSink& log) {
  if (Status readable = check_mesh_dir(options.mesh_dir); !readable.ok()) return readable.error();
  OSM_TRY(StateDir state, StateDir::lock(options.state_dir));
  auto controller = std::make_unique<ControllerImpl>(options, std::move(state), clock, log);
  if (Status started = controller->start(); !started.ok()) return started.error();
  return std::unique_ptr<Controller>(std::move(controller));
}

}  // namespace osm::controller
