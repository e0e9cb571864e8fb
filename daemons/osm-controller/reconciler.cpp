#include "reconciler.hpp"

#include <string>
#include <utility>
#include <vector>

#include "osm/host/start.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/runtime/lanes.hpp"
#include "process.hpp"

namespace osm::controller {
namespace {

class Reconciling final : public daemon::Daemon {
 public:
  explicit Reconciling(OwnRuntime& runtime) : runtime_(runtime) {}

  Status start(const Options& options) {
    OSM_TRY(cluster_, kubernetes::connect({.kubeconfig = options.kubeconfig,
                                           .environment = daemon::environment(),
                                           .io = runtime_.asio(),
                                           .runtime = runtime_}));
    // The daemons set the CA of their webhooks.
    const kubernetes::WebhookUpkeep webhook{.manager = nullptr,
                                            .repair = kubernetes::Repair::kCreate};
    OSM_TRY(upkeep_, kubernetes::start_upkeep(
                         {.cluster = *cluster_,
                          .runtime = daemon::with_executors(runtime_, waiting_, waiting_),
                          .replica = host::replica_name(runtime_.rng),
                          .mesh_name = options.mesh_name,
                          .osm_namespace = options.osm_namespace,
                          .kinds_repair = kubernetes::Repair::kCreate,
                          .mutating_webhook = webhook,
                          .validating_webhook = webhook,
                          .beside_osm_v1 = options.beside_osm_v1}));
    return {};
  }

  std::vector<std::pair<const char*, std::string>> facts() const override {
    return {{"mesh", "kubernetes"}};
  }
  std::vector<std::string> missing() const override { return {}; }
  std::vector<Problem> problems() const override { return upkeep_->problems(); }

  void shutdown(std::chrono::milliseconds /*deadline*/) override {}

 private:
  OwnRuntime& runtime_;
  net::Lane waiting_{runtime_.lanes(),
                     {.name = "upkeep of kinds and webhooks", .bound = 2, .watched = true}};
  std::unique_ptr<kubernetes::Cluster> cluster_;
  std::unique_ptr<kubernetes::Upkeep> upkeep_;
};

}  // namespace

Result<std::unique_ptr<daemon::Daemon>> start_reconciler(const Options& options,
                                                         OwnRuntime& runtime) {
  auto reconciler = std::make_unique<Reconciling>(runtime);
  OSM_TRY(reconciler->start(options));
  return std::unique_ptr<daemon::Daemon>(std::move(reconciler));
}

}  // namespace osm::controller
