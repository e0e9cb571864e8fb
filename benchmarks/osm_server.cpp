// libosm as osm-controller wires it, over memory in place of a directory.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "ads/ads_server.hpp"
#include "catalog/mesh_catalog.hpp"
#include "catalog/mesh_loop.hpp"
#include "certificate/service_certificates.hpp"
#include "counting_sinks.hpp"
#include "measured_server.hpp"
#include "model/names.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/runtime/asio_executor.hpp"
#include "osm/runtime/system.hpp"
#include "translate/translate.hpp"

namespace osm::bench {
namespace {

constexpr int kThreads = 2;
constexpr std::chrono::hours kValidity{24};

// The threads of an executor; they end before what they worked on.
class Threads {
 public:
  Threads() {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { context_.run(); });
  }
  ~Threads() { stop(); }
  void stop() {
    work_.reset();
    context_.stop();
    threads_.clear();
  }
  boost::asio::io_context& context() { return context_; }

 private:
  boost::asio::io_context context_{kThreads};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  std::vector<std::jthread> threads_;
};

class OsmServer final : public MeasuredServer {
 public:
  explicit OsmServer(const MeshSize& size) : mesh_(size) { mesh_.fill(spec_, provider_); }

  Status start(const std::string& ca_directory) {
    OSM_TRY(auto issuer,
            certificate::load_or_create_directory_ca(
                {.directory = ca_directory, .trust_domain = kTrustDomain, .clock = clock_}));
    manager_ = certificate::make_manager(
        {.issuer = std::move(issuer),
         .runtime = {executor_, executor_, clock_, rng_, log_, metrics_}});
    secrets_ =
        std::make_unique<certificate::ServiceCertificates>(certificate::ServiceCertificatesOptions{
            .manager = *manager_,
            .runtime = {executor_, executor_, clock_, rng_, log_, metrics_},
            .trust_domain = kTrustDomain,
            .validity = [] { return kValidity; }});
    loop_ = std::make_unique<catalog::MeshLoop>(
        catalog::MeshLoopOptions{.spec = spec_,
                                 .providers = {{&provider_, true}},
                                 .workload_providers = {&provider_},
                                 .trust_domain = kTrustDomain,
                                 .runtime = {executor_, executor_, clock_, rng_, log_, metrics_}});
    wait_for_first_snapshot();
    catalog_ = catalog::make_mesh_catalog(
        {.spec = spec_, .snapshots = loop_->snapshots(), .clock = clock_});
    OSM_TRY(auto own,
            manager_->issue_certificate({.common_name = CommonName{"osm-controller"},
                                         .spiffe_id = model::controller_spiffe_id(kTrustDomain),
                                         .usage = certificate::Usage::kController},
                                        kValidity));
    OSM_TRY(ads_,
            ads::AdsServer::start({.address = "127.0.0.1:0",
                                   .connections = {.unverified_per_address = 0},
                                   .accepted_domains = {kTrustDomain},
                                   .server_certificate = [own] { return own; }},
                                  {.runtime = {executor_, executor_, clock_, rng_, log_, metrics_},
                                   .snapshots = loop_->snapshots(),
                                   .secrets = *secrets_,
                                   .registry = *catalog_}));
    return {};
  }

  std::string address() const override { return ads_->address(); }

  Status apply(Change change) override {
    if (change == Change::kCertificate) {
      auto rotated = manager_->rotate_certificate(
          model::service_common_name(kTrustDomain, mesh_.rotated_identity()));
      if (!rotated) return rotated.error();
      return {};
    }
    mesh_.apply(change, spec_, provider_);
    return {};
  }

  std::map<std::string, double> metrics() const override {
    auto values = metrics_.values();
    values["classes"] = static_cast<double>(classes());
    return values;
  }

 private:
  // Number of classes of proxies. Each translation is done once per class.
  std::size_t classes() const {
    const auto snapshot = loop_->snapshots().load();
    std::set<translate::ProxyClass> distinct;
    for (const auto& entry : snapshot->workloads)
      distinct.insert(translate::class_of(*snapshot, entry->workload));
    return distinct.size();
  }

  // A proxy that comes earlier is refused; and the mesh's own memory is not the proxies'.
  void wait_for_first_snapshot() {
    std::promise<void> published;
    std::once_flag once;
    const auto arrived = [&] { std::call_once(once, [&] { published.set_value(); }); };
    const Subscription watch =
        loop_->snapshots().subscribe([&](const auto& /*snapshot*/) { arrived(); });
    if (loop_->snapshots().load()) arrived();
    published.get_future().wait();
  }

  SyntheticMesh mesh_;
  SystemClock clock_;
  RandomRng rng_{1};
  WarningLog log_;
  CountingMetrics metrics_;
  testing::MemoryMeshSpec spec_;
  testing::MemoryEndpointsProvider provider_;
  Threads threads_;
  net::AsioExecutor executor_{threads_.context()};
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<model::SecretSource> secrets_;
  std::unique_ptr<catalog::MeshLoop> loop_;
  std::unique_ptr<MeshCataloger> catalog_;
  std::unique_ptr<ads::AdsServer> ads_;
};

}  // namespace

Result<std::unique_ptr<MeasuredServer>> start_osm_server(const MeshSize& size,
                                                         const std::string& ca_directory) {
  auto server = std::make_unique<OsmServer>(size);
  if (Status started = server->start(ca_directory); !started) return started.error();
  return std::unique_ptr<MeasuredServer>(std::move(server));
}

}  // namespace osm::bench
