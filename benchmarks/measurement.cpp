#include "measurement.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "added_service.hpp"
#include "certificates.hpp"
#include "proxy_fleet.hpp"
#include "server_process.hpp"

namespace osm::bench {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kEncodedMetric = "osm_resources_encoded_total";
constexpr const char* kClassesMetric = "classes";

// The cost of an added Service is computed class by class, in this process: minutes in a mesh of
// 200 classes, which would say the same.
constexpr int kProxiesOfAddedService = 100;

double milliseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::milli>(SteadyClock::now() - start).count();
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "mesh_bench.XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Experiment {
 public:
  Experiment(const MeshSize& size, std::chrono::seconds patience)
      : size_(size), mesh_(size), patience_(patience) {
    result_.size = size;
  }

  Result<Measurement> run() {
    OSM_TRY(auto authority, BenchAuthority::load((directory_.path() / "ca").string()));
    for (int proxy = 0; proxy < size_.proxies; ++proxy) {
      OSM_TRY(auto credentials, authority->proxy_credentials(mesh_.workload(proxy)));
      credentials_.push_back(std::move(credentials));
    }
    if (Status done = measure_osm(); !done) return done.error().with_context("libosm");
    if (Status done = measure_bare(); !done) return done.error().with_context("bare server");
    if (size_.proxies > kProxiesOfAddedService) return result_;
    for (XdsVariant variant : {XdsVariant::kSotw, XdsVariant::kDelta})
      result_.counts[fmt::format("added_service.{}.bytes", xds_variant_text(variant))] =
          bytes_per_added_service(size_, variant);
    // Only the first may grow with the number of Services.
    for (const int services : {200, 1000}) {
      const OneProxyBytes bytes =
          bytes_to_one_proxy({size_.permissive, services, services}, XdsVariant::kDelta);
      const auto count = [&](const char* what, std::uint64_t value) {
        result_.counts[fmt::format("one_proxy_of_{}.delta.{}.bytes", services, what)] = value;
      };
      count("first", bytes.first);
      count("added_service", bytes.added);
      count("removed_service", bytes.removed);
    }
    return result_;
  }

 private:
  struct Running {
    std::unique_ptr<ServerProcess> server;
    std::unique_ptr<ProxyFleet> fleet;
  };

  // Starts a server and lets all proxies connect to it and receive everything.
  Result<Running> start(const std::vector<std::string>& arguments, Start& measured) {
    Running running;
    OSM_TRY(running.server, ServerProcess::start(arguments));
    OSM_TRY(const ServerStatus before, running.server->status());
    const auto started = SteadyClock::now();
    running.fleet = std::make_unique<ProxyFleet>(running.server->address(), credentials_);
    ProxyFleet& fleet = *running.fleet;
    if (!fleet.run_until([&] { return fleet.configured() == credentials_.size(); },
                         started + patience_))
      return Error{ErrorCode::kDeadlineExceeded, "first configuration: " + fleet.failure()};
    measured.wall_seconds = milliseconds_since(started) / 1000;
    OSM_TRY(const ServerStatus after, running.server->status());
    measured.cpu_seconds = after.cpu_seconds - before.cpu_seconds;
    measured.bytes = fleet.received().all_bytes();
    measured.resident_bytes = static_cast<double>(after.resident_bytes);
    measured.resident_bytes_per_proxy =
        (static_cast<double>(after.resident_bytes) - static_cast<double>(before.resident_bytes)) /
        size_.proxies;
    return running;
  }

  Status measure_osm() {
    OSM_TRY(const Running running,
            start({"serve", "--ca", (directory_.path() / "ca").string(), "--proxies",
                   std::to_string(size_.proxies), "--services", std::to_string(size_.services),
                   "--mode", size_.permissive ? "permissive" : "smi"},
                  result_.osm));
    OSM_TRY(const ServerStatus settled, running.server->status());
    count("start", running.fleet->received(), settled.sum(kEncodedMetric));
    result_.counts["classes"] = static_cast<std::uint64_t>(settled.sum(kClassesMetric));
    for (const auto& [type, bytes] : running.fleet->recorded())
      std::ofstream(directory_.path() / xds_type_text(type), std::ios::binary) << bytes;
    return measure_changes(running);
  }

  // Responses of a change are counted up to the beacon that follows it, so that nothing is missed
  // and nothing is waited for by time; the beacon's own share, measured alone before, is taken off.
  Status measure_changes(const Running& running) {
    OSM_TRY(const Effect beacon, effect_of(running, {Change::kBeacon}));
    for (Change change : {Change::kEndpoint, Change::kPolicy, Change::kCertificate}) {
      OSM_TRY(Effect effect, effect_of(running, {change, Change::kBeacon}));
      count(change_text(change), effect.received - beacon.received,
            effect.encoded - beacon.encoded);
      result_.counts[change_text(change) + ".proxies"] = running.fleet->receivers(1);
      result_.latencies[change] = effect.latency;
    }
    return {};
  }

  struct Effect {
    Received received;
    double encoded = 0;
    Measurement::Latency latency;  // of the first change
  };

  Result<Effect> effect_of(const Running& running, std::initializer_list<Change> changes) {
    ProxyFleet& fleet = *running.fleet;
    OSM_TRY(const ServerStatus before, running.server->status());
    const Received received_before = fleet.received();
    fleet.mark();
    Effect effect;
    std::size_t already = 0;  // responses that the beacon must add to
    for (Change change : changes) {
      const auto started = SteadyClock::now();
      if (Status done = running.server->change(change); !done) return done.error();
      if (!arrives(fleet, change, already > 0))
        return Error{ErrorCode::kDeadlineExceeded, change_text(change) + ": " + fleet.failure()};
      if (already++ > 0) continue;
      effect.latency.last_proxy_ms = milliseconds_since(started);
      OSM_TRY(const ServerStatus after, running.server->status());
      effect.latency.cpu_ms = (after.cpu_seconds - before.cpu_seconds) * 1000;
    }
    OSM_TRY(const ServerStatus after, running.server->status());
    effect.received = fleet.received() - received_before;
    effect.encoded = after.sum(kEncodedMetric) - before.sum(kEncodedMetric);
    return effect;
  }

  // Waits until every proxy that `change` concerns has received it.
  bool arrives(ProxyFleet& fleet, Change change, bool after_another) {
    const std::vector<Touch> touched = mesh_.touched_by(change);
    std::vector<std::uint64_t> enough(credentials_.size(), 1);
    if (after_another)
      for (const Touch& touch : touched)
        enough[static_cast<std::size_t>(touch.proxy)] = fleet.arrived(touch.proxy, touch.types) + 1;
    std::size_t next = 0;
    return fleet.run_until(
        [&] {
          while (next < touched.size() && fleet.arrived(touched[next].proxy, touched[next].types) >=
                                              enough[static_cast<std::size_t>(touched[next].proxy)])
            ++next;
          return next == touched.size();
        },
        SteadyClock::now() + patience_);
  }

  Status measure_bare() {
    auto running = start({"serve-bare", "--ca", (directory_.path() / "ca").string(), "--recordings",
                          directory_.path().string()},
                         result_.bare);
    if (!running) return running.error();
    return {};
  }

  void count(const std::string& what, const Received& received, double encoded) {
    result_.counts[what + ".responses"] = received.all_responses();
    result_.counts[what + ".bytes"] = received.all_bytes();
    result_.counts[what + ".resources_encoded"] = static_cast<std::uint64_t>(std::llround(encoded));
  }

  MeshSize size_;
  SyntheticMesh mesh_;
  std::chrono::seconds patience_;
  TemporaryDirectory directory_;
  std::vector<Credentials> credentials_;
  Measurement result_;
};

}  // namespace

Result<Measurement> measure(const MeshSize& size, std::chrono::seconds patience) {
  return Experiment(size, patience).run();
}

}  // namespace osm::bench
