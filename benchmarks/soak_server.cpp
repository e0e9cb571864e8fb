#include "soak_server.hpp"

#include <malloc.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "counting_sinks.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/control_plane.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/thread_executor.hpp"
#include "osm/values/proxy.hpp"
#include "soak_mesh.hpp"

namespace osm::bench {
namespace {

// Renewed between a half and two thirds of that: every identity about four times in ten minutes.
constexpr std::chrono::minutes kValidity{4};

double entries_of(const char* directory) {
  std::error_code ignored;
  return static_cast<double>(
      std::distance(std::filesystem::directory_iterator(directory, ignored), {}));
}

// Without the refusals, which are the soak's own doing.
class SoakLog final : public LogSink {
 public:
  bool enabled(LogLevel level) const override { return log_.enabled(level); }
  void write(LogLevel level, std::string_view message, std::span<const LogField> fields) override {
    for (const LogField& field : fields)
      if (field.key == "code" && (field.value == "nack" || field.value == "refused-by-proxy"))
        return;
    log_.write(level, message, fields);
  }

 private:
  WarningLog log_;
};

class SoakServer final : public MeasuredServer {
 public:
  explicit SoakServer(const SoakServerOptions& options)
      : options_(options), mesh_(options.size, options.seed), random_(options.seed) {
    mesh_.fill(spec_, provider_);
    MeshConfig config = spec_.get_mesh_config();
    config.certificates.service_validity = kValidity;
    spec_.set_mesh_config(config);
  }

  Status start() {
    OSM_TRY(
        auto issuer,
        certificate::load_or_create_directory_ca(
            {.directory = options_.ca_directory, .trust_domain = kTrustDomain, .clock = clock_}));
    manager_ = certificate::make_manager(
        {.issuer = std::move(issuer),
         .runtime = {executor_, blocking_, clock_, rng_, log_, metrics_}});
    OSM_TRY(control_plane_,
            ControlPlane::start({.spec = spec_,
                                 .providers = {{&provider_, true}},
                                 .workload_providers = {&provider_},
                                 .certificates = *manager_,
                                 .runtime = {executor_, blocking_, clock_, rng_, log_, metrics_},
                                 .trust_domain = kTrustDomain,
                                 .ads_address = "127.0.0.1:0"}));
    while (!control_plane_->status().waiting_for.empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return {};
  }

  std::string address() const override { return control_plane_->ads_address(); }

  Status apply(Change change) override {
    if (change == Change::kCertificate) return rotate_one();
    if (change == Change::kBeacon && options_.leaked_bytes > 0)
      leaked_.emplace_back(options_.leaked_bytes, 'x');
    mesh_.apply(change, spec_, provider_);
    return {};
  }

  std::map<std::string, double> metrics() const override {
    auto values = metrics_.values();
    values["proxies"] = static_cast<double>(control_plane_->list_proxies().size());
    values["problems"] = static_cast<double>(control_plane_->status().problems.size());
    values["descriptors"] = entries_of("/proc/self/fd");
    const struct mallinfo2 heap = ::mallinfo2();
    values["allocated"] = static_cast<double>(heap.uordblks + heap.hblkhd);
    values["threads"] = entries_of("/proc/self/task");
    return values;
  }

 private:
  Status rotate_one() {
    std::vector<CommonName> names;
    for (const auto& held : manager_->list_certificates())
      if (held->subject.usage == certificate::Usage::kWorkload)
        names.push_back(held->subject.common_name);
    if (names.empty()) return {};
    const auto rotated = manager_->rotate_certificate(names[random_() % names.size()]);
    // Nobody may need it any more by now.
    if (!rotated && rotated.error().code != ErrorCode::kNotFound) return rotated.error();
    return {};
  }

  const SoakServerOptions options_;
  SoakMesh mesh_;
  std::mt19937_64 random_;
  std::vector<std::string> leaked_;
  SystemClock clock_;
  RandomRng rng_{1};
  SoakLog log_;
  CountingMetrics metrics_;
  testing::MemoryMeshSpec spec_;
  testing::MemoryEndpointsProvider provider_;
  testing::ThreadExecutor executor_{2};
  testing::ThreadExecutor blocking_{2};
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<ControlPlane> control_plane_;
};

}  // namespace

Result<std::unique_ptr<MeasuredServer>> start_soak_server(const SoakServerOptions& options) {
  auto server = std::make_unique<SoakServer>(options);
  if (Status started = server->start(); !started) return started.error();
  return std::unique_ptr<MeasuredServer>(std::move(server));
}

}  // namespace osm::bench
