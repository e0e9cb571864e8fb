// Responses, bytes and certificates of a root rotation over 1,000 proxies are those of the
// baseline.
//
// rotation_bench: what it costs to replace the root of a mesh of N identities and N proxies while
// they are connected. See README.md.
#include <fmt/format.h>
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iostream>

#include "baseline.hpp"
#include "certificates.hpp"
#include "measured_server.hpp"
#include "openssl_alone.hpp"
#include "process_usage.hpp"
#include "proxy_fleet.hpp"
#include "rotation_server.hpp"
#include "server_process.hpp"
#include "temporary_directory.hpp"

namespace osm::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Pause between two questions to the server, which count as its own CPU time.
constexpr std::chrono::milliseconds kLook{500};

struct Flags {
  int proxies = 1000;
  int patience_seconds = 120;
  std::string baseline;
  bool gate = false, update = false;
  RotationDirectories directories;
  std::string recordings;
};

struct Rotation {
  double wall_seconds = 0;
  double cpu_seconds = 0;  // of the server process
  double leaves = 0;       // issued for it
  Received received;
};

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

MeshSize size_of(int proxies) {
  return {.permissive = false, .proxies = proxies, .services = proxies};
}

// CPU time of OpenSSL alone for `times` keys and bare certificates.
double seconds_of_openssl_alone(int times) {
  const Key ca = new_key(KeyType::kEcdsaP256);
  const double start = cpu_seconds();
  for (int i = 0; i < times; ++i)
    if (!openssl_alone(KeyType::kEcdsaP256, *ca)) return 0;
  return cpu_seconds() - start;
}

class Experiment {
 public:
  explicit Experiment(const Flags& flags)
      : size_(size_of(flags.proxies)), patience_(flags.patience_seconds) {}

  Status run() {
    OSM_TRY(auto before, BenchAuthority::load(ca()));
    OSM_TRY(auto after, BenchAuthority::load(next_ca()));
    const SyntheticMesh mesh(size_);
    for (int proxy = 0; proxy < size_.proxies; ++proxy) {
      OSM_TRY(credentials_.emplace_back(), before->proxy_credentials(mesh.workload(proxy)));
      OSM_TRY(Credentials next, after->proxy_credentials(mesh.workload(proxy)));
      // While both are trusted, the control plane shows what the first one signed.
      next.trust_bundle_pem += credentials_.back().trust_bundle_pem;
      next_credentials_.push_back(std::move(next));
    }
    if (Status done = measure_rotation(); !done) return done.error().with_context("libosm");
    if (Status done = measure_bare(); !done) return done.error().with_context("bare server");
    return {};
  }

  Rotation rotation;
  Start start, bare;

 private:
  std::string ca() const { return directory_.path + "/ca"; }
  std::string next_ca() const { return directory_.path + "/next-ca"; }

  // Lets all proxies connect and receive everything.
  Result<std::unique_ptr<ProxyFleet>> connect(ServerProcess& server, Start& measured) {
    OSM_TRY(const ServerStatus before, server.status());
    const auto started = SteadyClock::now();
    auto fleet = std::make_unique<ProxyFleet>(server.address(), credentials_);
    if (!fleet->run_until([&] { return fleet->configured() == credentials_.size(); },
                          started + patience_))
      return Error{ErrorCode::kDeadlineExceeded, "first configuration: " + fleet->failure()};
    measured.wall_seconds = seconds_since(started);
    OSM_TRY(const ServerStatus after, server.status());
    measured.cpu_seconds = after.cpu_seconds - before.cpu_seconds;
    return fleet;
  }

  Status measure_rotation() {
    OSM_TRY(const auto server, ServerProcess::start({"serve", "--ca", ca(), "--next-ca", next_ca(),
                                                     "--record", directory_.path + "/rotation.json",
                                                     "--proxies", std::to_string(size_.proxies)}));
    OSM_TRY(const auto fleet, connect(*server, start));
    for (const auto& [type, bytes] : fleet->recorded())
      std::ofstream(directory_.path + '/' + std::string(xds_type_text(type)), std::ios::binary)
          << bytes;
    if (Status settled = wait_until_settled(*server, *fleet, false); !settled) return settled;
    OSM_TRY(const ServerStatus before, server->status());
    const Received received = fleet->received();
    // As if every proxy had been given its next certificate already: it shows that when it is
    // called back, and not before.
    fleet->renew(next_credentials_);
    const auto started = SteadyClock::now();
    if (Status done = server->change(Change::kRoot); !done) return done;
    if (Status settled = wait_until_settled(*server, *fleet, true); !settled) return settled;
    rotation.wall_seconds = seconds_since(started);
    OSM_TRY(const ServerStatus after, server->status());
    rotation.cpu_seconds = after.cpu_seconds - before.cpu_seconds;
    rotation.leaves = after.sum("osm_cert_issued_count") - before.sum("osm_cert_issued_count");
    rotation.received = fleet->received() - received;
    return {};
  }

  // Until every proxy is connected and acknowledged what is current.
  Status wait_until_settled(ServerProcess& server, ProxyFleet& fleet, bool rotated) const {
    const auto deadline = SteadyClock::now() + patience_;
    while (SteadyClock::now() < deadline) {
      if (!fleet.work_for(kLook)) return Error{ErrorCode::kUnavailable, fleet.failure()};
      OSM_TRY(const ServerStatus now, server.status());
      if (now.metrics.at("lag") == 0 && now.metrics.at("proxies") == size_.proxies &&
          (!rotated || now.metrics.at("rotated") == 1))
        return {};
    }
    return Error{ErrorCode::kDeadlineExceeded, "not every proxy has what it should have"};
  }

  Status measure_bare() {
    OSM_TRY(const auto server,
            ServerProcess::start({"serve-bare", "--ca", ca(), "--recordings", directory_.path}));
    const auto fleet = connect(*server, bare);
    if (!fleet) return fleet.error();
    return {};
  }

  const MeshSize size_;
  const std::chrono::seconds patience_;
  const TemporaryDirectory directory_;
  std::vector<Credentials> credentials_, next_credentials_;
};

Counts counts_of(const Rotation& rotation, int proxies) {
  const auto secrets = static_cast<std::size_t>(XdsType::kSecret);
  // A whole number that a gate can hold: two pushes that meet go as one.
  const auto per_proxy = [&](std::uint64_t number) {
    return (number + static_cast<std::uint64_t>(proxies) - 1) / static_cast<std::uint64_t>(proxies);
  };
  return {
      {"secret_responses_per_proxy", per_proxy(rotation.received.responses[secrets])},
      {"other_responses", rotation.received.all_responses() - rotation.received.responses[secrets]},
      {"per_proxy.bytes", per_proxy(rotation.received.all_bytes())},
      // Rounded down, which leaves the control plane's own out.
      {"leaves_per_identity", static_cast<std::uint64_t>(rotation.leaves / proxies)}};
}

void print(const Experiment& e, const Counts& counts, int proxies) {
  const double alone = seconds_of_openssl_alone(proxies);
  fmt::print("the root of {} identities and {} proxies is replaced\n", proxies, proxies);
  fmt::print("  {:.1f} s wall, {:.2f} s CPU of the server, {:.0f} leaves issued\n",
             e.rotation.wall_seconds, e.rotation.cpu_seconds, e.rotation.leaves);
  fmt::print("  {} responses ({:.2f} per proxy), {} bytes ({:.0f} per proxy)\n",
             e.rotation.received.all_responses(),
             static_cast<double>(e.rotation.received.all_responses()) / proxies,
             e.rotation.received.all_bytes(),
             static_cast<double>(e.rotation.received.all_bytes()) / proxies);
  fmt::print("  beside: OpenSSL alone, {} keys and signatures: {:.2f} s CPU\n", proxies, alone);
  fmt::print("          {} proxies that connect and are configured: {:.2f} s CPU, {:.1f} s wall\n",
             proxies, e.start.cpu_seconds, e.start.wall_seconds);
  fmt::print("          the same of a bare gRPC server: {:.2f} s CPU, {:.1f} s wall\n",
             e.bare.cpu_seconds, e.bare.wall_seconds);
  for (const auto& [name, number] : counts) fmt::print("  {} {}\n", name, number);
}

int fail(const Error& error) {
  std::cerr << error.text() << '\n';
  return 1;
}

int run(const Flags& flags) {
  // gRPC's clients log every connection that is cut, which is all of them.
  gpr_set_log_function([](gpr_log_func_args*) {});
  Baseline baseline;
  if (flags.gate || flags.update) {
    auto loaded = load_baseline(flags.baseline);
    if (!loaded) return fail(loaded.error());
    baseline = std::move(*loaded);
  }
  Experiment experiment(flags);
  if (Status done = experiment.run(); !done) return fail(done.error());
  const Counts counts = counts_of(experiment.rotation, flags.proxies);
  print(experiment, counts, flags.proxies);
  const std::string name = fmt::format("rotation-{}", flags.proxies);
  if (flags.update) {
    baseline.counts[name] = counts;
    if (Status saved = save_baseline(flags.baseline, baseline); !saved) return fail(saved.error());
  }
  const auto worse = flags.gate ? regressions(name, counts, baseline) : std::vector<std::string>();
  for (const std::string& line : worse) std::cerr << "WORSE " << line << '\n';
  return worse.empty() ? 0 : 1;
}

int serve_one(Result<std::unique_ptr<MeasuredServer>> server) {
  if (!server) return fail(server.error());
  serve(**server);
  return 0;
}

int main_with_flags(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Measures the rotation of a mesh's root with simulated proxies over mutual TLS gRPC");
  app.require_subcommand(1);
  auto* runs = app.add_subcommand("run", "Measure, and compare with the baseline");
  runs->add_option("--proxies", flags.proxies, "Each of an account of its own")
      ->check(CLI::Range(3, 100'000))
      ->capture_default_str();
  runs->add_option("--patience", flags.patience_seconds, "Seconds to wait for each step");
  auto* file = runs->add_option("--baseline", flags.baseline, "baseline.json");
  runs->add_flag("--gate", flags.gate, "Fail when a count is worse than the baseline")->needs(file);
  runs->add_flag("--update-baseline", flags.update, "Write what was measured")->needs(file);

  auto* osm = app.add_subcommand("serve", "The server under measurement (run starts it)");
  osm->add_option("--ca", flags.directories.ca)->required();
  osm->add_option("--next-ca", flags.directories.next_ca)->required();
  osm->add_option("--record", flags.directories.record)->required();
  osm->add_option("--proxies", flags.proxies)->required();
  auto* bare = app.add_subcommand("serve-bare", "The bare server (run starts it)");
  bare->add_option("--ca", flags.directories.ca)->required();
  bare->add_option("--recordings", flags.recordings)->required();
  CLI11_PARSE(app, argc, argv);

  if (*runs) return run(flags);
  if (*bare) return serve_one(start_bare_server(flags.directories.ca, flags.recordings));
  return serve_one(start_rotation_server(size_of(flags.proxies), flags.directories));
}

}  // namespace
}  // namespace osm::bench

int main(int argc, char** argv) { return osm::bench::main_with_flags(argc, argv); }
