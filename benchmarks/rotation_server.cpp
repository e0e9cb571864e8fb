#include "rotation_server.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "counting_sinks.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/thread_executor.hpp"
#include "root_rotation/target.hpp"

namespace osm::bench {
namespace {

using certificate::Issuer;

// Passes calls on, and keeps the control plane to ask about its proxies.
class WatchedRotation final : public RootRotation {
 public:
  explicit WatchedRotation(std::unique_ptr<RootRotation> inner) : inner_(std::move(inner)) {}

  std::shared_ptr<Issuer> issuer() override { return inner_->issuer(); }
  Status attach(root_rotation::Target& control_plane) override {
    target_ = &control_plane;
    return inner_->attach(control_plane);
  }
  void follow(const RotationParticipants& participants) override { inner_->follow(participants); }
  void stop() override { inner_->stop(); }
  TrustDomains trust_domains() const override { return inner_->trust_domains(); }
  Result<DistrustEffect> distrust(const std::string& root, bool now) override {
    return inner_->distrust(root, now);
  }
  std::vector<RootStatus> status() const override { return inner_->status(); }

  const root_rotation::Target& control_plane() const { return *target_; }

 private:
  const std::unique_ptr<RootRotation> inner_;
  root_rotation::Target* target_ = nullptr;
};

class RotationServer final : public MeasuredServer {
 public:
  RotationServer(const MeshSize& size, RotationDirectories directories)
      : mesh_(size),
        directories_(std::move(directories)),
        record_(make_file_record(directories_.record)) {
    mesh_.fill(spec_, provider_);
  }
  ~RotationServer() override {
    if (rotation_) rotation_->stop();
  }

  Status start() {
    OSM_TRY(auto own, load(directories_.ca));
    OSM_TRY(auto rotation,
            RootRotation::start(
                {.runtime = {executor_, blocking_, clock_, rng_, log_, metrics_},
                 .spec = spec_,
                 .record = *record_,
                 .own = std::move(own),
                 .open = [this](const AllowedRoot&) { return load(directories_.next_ca); },
                 .trust_domain = kTrustDomain}));
    rotation_ = std::make_unique<WatchedRotation>(std::move(rotation));
    manager_ = certificate::make_manager(
        {.issuer = rotation_->issuer(),
         .runtime = {executor_, blocking_, clock_, rng_, log_, metrics_}});
    OSM_TRY(control_plane_,
            ControlPlane::start({.spec = spec_,
                                 .providers = {{&provider_, true}},
                                 .workload_providers = {&provider_},
                                 .certificates = *manager_,
                                 .runtime = {executor_, blocking_, clock_, rng_, log_, metrics_},
                                 .ads_address = "127.0.0.1:0",
                                 .ads_connections = {.unverified_per_address = 0},
                                 .root_rotation = rotation_.get()}));
    rotation_->follow({.manager = *manager_});
    while (!control_plane_->status().waiting_for.empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return {};
  }

  std::string address() const override { return control_plane_->ads_address(); }

  Status apply(Change change) override {
    mesh_.apply(change, spec_, provider_);
    return {};
  }

  std::map<std::string, double> metrics() const override {
    auto values = metrics_.values();
    const model::CertificateProgress progress =
        rotation_->control_plane().certificate_progress(goal()).value();
    values["proxies"] = static_cast<double>(progress.proxies.size());
    values["lag"] = static_cast<double>(progress.bundle_lag() + progress.leaf_lag() + own_lag());
    values["rotated"] = rotated() ? 1 : 0;
    return values;
  }

 private:
  Result<std::shared_ptr<Issuer>> load(const std::string& directory) const {
    OSM_TRY(auto issuer,
            certificate::load_or_create_directory_ca(
                {.directory = directory, .trust_domain = kTrustDomain, .clock = clock_}));
    return std::shared_ptr<Issuer>(std::move(issuer));
  }

  model::CertificateGoal goal() const {
    model::CertificateGoal goal{.issuer_id = manager_->issuer_id(),
                                .issuer_key_id = {},
                                .trust_bundle_pem = manager_->trust_bundle_pem(),
                                .trust_domains = rotation_->trust_domains()};
    const auto all = manager_->list_certificates();
    const auto newest = std::find_if(all.begin(), all.end(), [&](const auto& held) {
      return held->issuer_id == goal.issuer_id &&
             held->subject.usage == certificate::Usage::kWorkload;
    });
    if (newest != all.end()) goal.issuer_key_id = (*newest)->issuer_key_id;
    return goal;
  }

  std::size_t own_lag() const {
    std::size_t lag = 0;
    for (const auto& held : manager_->list_certificates())
      lag += held->issuer_id != manager_->issuer_id();
    return lag;
  }

  bool rotated() const {
    bool signs = false, forgotten = false;
    for (const RootStatus& root : rotation_->status()) {
      signs = signs || (root.name == kNextRoot && root.state == "signing");
      forgotten = forgotten || (root.name == kOwnRoot && root.state == "inactive");
    }
    return signs && forgotten;
  }

  SyntheticMesh mesh_;
  const RotationDirectories directories_;
  SystemClock clock_;
  RandomRng rng_{1};
  WarningLog log_;
  CountingMetrics metrics_;
  testing::MemoryMeshSpec spec_;
  testing::MemoryEndpointsProvider provider_;
  testing::ThreadExecutor executor_{2};
  testing::ThreadExecutor blocking_{2};
  const std::unique_ptr<TextRecord> record_;
  std::unique_ptr<WatchedRotation> rotation_;
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<ControlPlane> control_plane_;
};

}  // namespace

Result<std::unique_ptr<MeasuredServer>> start_rotation_server(
    const MeshSize& size, const RotationDirectories& directories) {
  auto server = std::make_unique<RotationServer>(size, directories);
  if (Status started = server->start(); !started) return started.error();
  return std::unique_ptr<MeasuredServer>(std::move(server));
}

}  // namespace osm::bench
