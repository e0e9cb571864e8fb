// An hour of churn over 200 proxies grows no memory after ten minutes.
//
// soak_bench: an hour of churn over simulated proxies, after which the control plane must be no
// larger than after the first ten minutes. See README.md.
#include <fmt/format.h>
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "certificates.hpp"
#include "lib/run.hpp"
#include "measured_server.hpp"
#include "process_usage.hpp"
#include "server_process.hpp"
#include "soak_fleet.hpp"
#include "soak_mesh.hpp"
#include "soak_server.hpp"
#include "soak_verdict.hpp"
#include "temporary_directory.hpp"

namespace osm::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Waves begin so far apart, which leaves most of a core to others.
constexpr std::chrono::milliseconds kWave{1000};
constexpr std::chrono::seconds kPatience{60};
constexpr int kRefusedEvery = 8, kReplacedEvery = 3;  // waves

struct Flags {
  int minutes = 60, warm_up = 10;
  int proxies = 200, services = 40;
  std::uint64_t seed = 0;
  std::size_t leak = 0;
  std::string ca;
};

class Soak {
 public:
  explicit Soak(const Flags& flags)
      : flags_(flags),
        size_{.permissive = false, .proxies = flags.proxies, .services = flags.services},
        workloads_(size_),
        random_(flags.seed) {}

  Status run() {
    OSM_TRY(authority_, BenchAuthority::load(directory_.path));
    OSM_TRY(server_,
            ServerProcess::start(
                {"serve", "--ca", directory_.path, "--proxies", std::to_string(size_.proxies),
                 "--services", std::to_string(size_.services), "--seed",
                 std::to_string(flags_.seed), "--leak", std::to_string(flags_.leak)}));
    fleet_ = std::make_unique<SoakFleet>(server_->address());
    for (int proxy = 0; proxy < size_.proxies; ++proxy) {
      OSM_TRY(Credentials own, authority_->proxy_credentials(workloads_.workload(proxy)));
      // Every service has proxies of both variants.
      const bool delta = proxy / size_.services % 2 == 1;
      fleet_->add(delta ? XdsVariant::kDelta : XdsVariant::kSotw, std::move(own));
      fleet_->connect(proxy, true);
    }
    if (Status settled = converge(); !settled) return settled.error().with_context("at first");
    const auto start = SteadyClock::now();
    for (int minute = 1; minute <= flags_.minutes; ++minute)
      if (Status done = run_minute(minute, start + std::chrono::minutes(minute)); !done)
        return done.error().with_context(fmt::format("minute {}, wave {}", minute, waves_));
    return {};
  }

  std::vector<SoakSample> samples;

 private:
  int below(int limit) { return std::uniform_int_distribution(0, limit - 1)(random_); }

  Status run_minute(int minute, SteadyClock::time_point end) {
    const Figures before = figures_;
    while (SteadyClock::now() + kWave < end) {
      const auto next = SteadyClock::now() + kWave;
      if (Status done = wave(); !done) return done;
      if (!fleet_->work_until(next)) return Error{ErrorCode::kUnavailable, fleet_->failure()};
    }
    if (Status done = reset(); !done) return done;
    if (!fleet_->work_until(end)) return Error{ErrorCode::kUnavailable, fleet_->failure()};
    return take_sample(minute, before);
  }

  Status wave() {
    ++waves_;
    for (int changes = below(4) + 1; changes > 0; --changes) {
      constexpr std::array kKinds{Change::kEndpoint, Change::kEndpoint,   Change::kEndpoint,
                                  Change::kPolicy,   Change::kPolicy,     Change::kService,
                                  Change::kService,  Change::kCertificate};
      const Change kind = kKinds[static_cast<std::size_t>(below(kKinds.size()))];
      if (Status done = server_->change(kind); !done) return done;
    }
    if (waves_ % kRefusedEvery <= 1)
      if (Status done = toggle_refused(waves_ % kRefusedEvery == 0); !done) return done;
    if (waves_ % kReplacedEvery == 0)
      if (Status done = replace_one(); !done) return done;
    std::vector<int> left;
    for (int leaving = below(4); leaving > 0; --leaving) {
      const int proxy = below(size_.proxies);
      if (!fleet_->connected(proxy)) continue;
      fleet_->disconnect(proxy);
      left.push_back(proxy);
    }
    // Some are away while others are told, and come back to what they missed.
    if (below(2) == 0)
      if (Status done = converge(); !done) return done;
    for (int proxy : left) fleet_->connect(proxy, below(3) == 0);
    return converge();
  }

  Status toggle_refused(bool wanted) {
    if (refused_ == wanted) return {};
    refused_ = wanted;
    return server_->change(Change::kRefused);
  }

  Status replace_one() {
    const int proxy = workloads_.replace_next();
    if (fleet_->connected(proxy)) fleet_->disconnect(proxy);
    if (Status done = server_->change(Change::kWorkload); !done) return done;
    OSM_TRY(Credentials own, authority_->proxy_credentials(workloads_.workload(proxy)));
    fleet_->replace(proxy, std::move(own));
    fleet_->connect(proxy, true);
    return {};
  }

  Status reset() {
    refused_ = false;
    if (Status done = server_->change(Change::kReset); !done) return done;
    return converge();
  }

  // Until every connected proxy holds all that it asks for and the beacon's newest address, which
  // is sent after all that changed before; and, unless some refuse something, until the proxies of
  // one service hold the same, in whichever variant and however often they reconnected.
  Status converge() {
    if (Status done = server_->change(Change::kBeacon); !done) return done;
    beacon_ = SyntheticMesh(size_).beacon(++beacons_).address;
    std::size_t next = 0;  // those before it were seen to hold theirs
    const auto configured = [&] {
      while (next < static_cast<std::size_t>(fleet_->size()) && holds_all(static_cast<int>(next)))
        ++next;
      return next == static_cast<std::size_t>(fleet_->size()) && (refused_ || lagging().empty());
    };
    if (fleet_->run_until(configured, SteadyClock::now() + kPatience)) return {};
    if (!fleet_->failure().empty()) return Error{ErrorCode::kUnavailable, fleet_->failure()};
    return Error{ErrorCode::kDeadlineExceeded, "these did not converge: " + lagging()};
  }

  bool holds_all(int proxy) const {
    return !fleet_->connected(proxy) ||
           (fleet_->proxy(proxy).configured() && fleet_->proxy(proxy).beacon() == beacon_);
  }

  // Proxies that lack something, or that differ from others of their service.
  std::string lagging() const {
    std::string text;
    std::map<int, std::uint64_t> digests;
    for (int proxy = 0; proxy < fleet_->size(); ++proxy) {
      if (!fleet_->connected(proxy)) continue;
      const SoakProxy& its = fleet_->proxy(proxy);
      const auto [known, first] = digests.try_emplace(proxy % size_.services, its.digest());
      if (!its.configured()) text += fmt::format(" proxy {} lacks resources;", proxy);
      if (its.beacon() != beacon_)
        text += fmt::format(" proxy {} has beacon {} for {};", proxy, its.beacon(), beacon_);
      if (!refused_ && known->second != its.digest())
        text += fmt::format(" proxy {} differs from others of its service;", proxy);
    }
    return text;
  }

  struct Figures {
    std::uint64_t responses = 0, connections = 0, refusals = 0;
    double cpu_seconds = 0, own_cpu_seconds = 0, issued = 0;
    int waves = 0;
  };

  Status take_sample(int minute, const Figures& before) {
    OSM_TRY(const ServerStatus status, server_->status());
    figures_ = {.responses = fleet_->responses(),
                .connections = fleet_->connections(),
                .refusals = fleet_->refusals(),
                .cpu_seconds = status.cpu_seconds,
                .own_cpu_seconds = bench::cpu_seconds(),
                .issued = status.sum("osm_cert_issued_count"),
                .waves = waves_};
    samples.push_back({.resident_bytes = static_cast<double>(status.resident_bytes),
                       .allocated_bytes = status.metrics.at("allocated"),
                       .descriptors = status.metrics.at("descriptors"),
                       .threads = status.metrics.at("threads")});
    const SoakSample& sample = samples.back();
    fmt::print(
        "minute {:3}: {:7.2f} MB resident, {:.2f} MB allocated, {:.0f} descriptors, {:.0f} "
        "threads; {} waves, {} "
        "responses, {} connections, {} refusals, {:.0f} certificates, {:.0f} problems; {:.1f} s "
        "CPU, driver {:.1f} s\n",
        minute, sample.resident_bytes / 1e6, sample.allocated_bytes / 1e6, sample.descriptors,
        sample.threads, figures_.waves - before.waves, figures_.responses - before.responses,
        figures_.connections - before.connections, figures_.refusals - before.refusals,
        figures_.issued - before.issued, status.metrics.at("problems"),
        figures_.cpu_seconds - before.cpu_seconds,
        figures_.own_cpu_seconds - before.own_cpu_seconds);
    std::fflush(stdout);
    if (status.metrics.at("proxies") != size_.proxies)
      return Error{ErrorCode::kInternal,
                   fmt::format("the server has {:.0f} proxies", status.metrics.at("proxies"))};
    if (status.metrics.at("problems") != 0)
      return Error{ErrorCode::kInternal, "problems remain of objects that are gone"};
    return {};
  }

  const Flags flags_;
  const MeshSize size_;
  SoakWorkloads workloads_;
  std::mt19937_64 random_;
  const TemporaryDirectory directory_;
  std::unique_ptr<BenchAuthority> authority_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<SoakFleet> fleet_;
  int waves_ = 0, beacons_ = 0;
  std::string beacon_;
  bool refused_ = false;
  Figures figures_;
};

int fail(const std::string& text) {
  std::cerr << text << '\n';
  return 1;
}

int run(const Flags& flags) {
  // gRPC's clients log every connection that is cut.
  gpr_set_log_function([](gpr_log_func_args*) {});
  fmt::print("soak: {} minutes of churn over {} proxies; OSM_TEST_SEED={}\n", flags.minutes,
             flags.proxies, flags.seed);
  std::fflush(stdout);
  Soak soak(flags);
  if (Status done = soak.run(); !done)
    return fail(fmt::format("{} (OSM_TEST_SEED={})", done.error().text(), flags.seed));
  const auto grown = growth(soak.samples, static_cast<std::size_t>(flags.warm_up), {});
  for (const std::string& line : grown) std::cerr << "WORSE " << line << '\n';
  return grown.empty() ? 0 : 1;
}

int serve_soak(const Flags& flags) {
  auto server = start_soak_server(
      {.size = {.permissive = false, .proxies = flags.proxies, .services = flags.services},
       .ca_directory = flags.ca,
       .seed = flags.seed,
       .leaked_bytes = flags.leak});
  if (!server) return fail(server.error().text());
  serve(**server);
  return 0;
}

int main_with_flags(int argc, char** argv) {
  Flags flags;
  flags.seed = osm::testing::seed();
  CLI::App app("Churn over simulated proxies, and memory that must not grow");
  app.require_subcommand(1);
  auto* runs = app.add_subcommand("run", "Churn, and compare memory");
  auto* serves = app.add_subcommand("serve", "The server under measurement (run starts it)");
  for (auto* command : {runs, serves}) {
    command->add_option("--proxies", flags.proxies)->check(CLI::Range(6, 10'000));
    command->add_option("--services", flags.services)->check(CLI::Range(5, 1'000));
    command->add_option("--seed", flags.seed, "Instead of OSM_TEST_SEED; else drawn");
    command->add_option("--leak", flags.leak, "Bytes that the server keeps for ever with each wave")
        ->group("");
  }
  runs->add_option("--minutes", flags.minutes)->check(CLI::Range(1, 10'000));
  runs->add_option("--warm-up", flags.warm_up, "Minutes in which memory may grow");
  serves->add_option("--ca", flags.ca)->required();
  CLI11_PARSE(app, argc, argv);
  return *runs ? run(flags) : serve_soak(flags);
}

}  // namespace
}  // namespace osm::bench

int main(int argc, char** argv) { return osm::bench::main_with_flags(argc, argv); }
