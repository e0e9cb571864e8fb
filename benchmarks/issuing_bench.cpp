// P-256 and RSA certificates per second are counted beside OpenSSL alone, and memory stays flat.
//
// Certificates: how many a second one core issues, whole (key, request, signature, check), beside
// OpenSSL alone making a 2048-bit RSA key and signing its certificate, which is the least that the
// original's issuing costs; and whether memory stays flat over issue and release cycles.
//
//   issuing_bench [--cycles N] [--gate]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "certificate/issuance.hpp"
#include "counting_sinks.hpp"
#include "openssl_alone.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/thread_executor.hpp"
#include "process_usage.hpp"
#include "temporary_directory.hpp"

namespace osm::bench {
namespace {

using certificate::KeyParameters;

// P-256 beside the original's limit; RSA-2048 beside the same: keys of random cost, so far apart.
constexpr double kLeastP256Ratio = 10;
constexpr double kLeastRsaRatio = 0.5;
// Growth that cycles may cause: the allocator's pages, and nothing that grows with their number.
constexpr double kMostGrowthBytes = 1024.0 * 1024;

constexpr int kRsaKeys = 16;  // a third of a second each
constexpr int kP256Keys = 500;

const certificate::Subject kSubject{CommonName("buyer.shop.cluster.local"),
                                    SpiffeId("spiffe://cluster.local/ns/shop/sa/buyer"),
                                    certificate::Usage::kWorkload};

// A second of one core.
double per_second(int times, const std::function<bool()>& once) {
  const double start = cpu_seconds();
  for (int i = 0; i < times; ++i)
    if (!once()) return 0;
  return times / (cpu_seconds() - start);
}

bool measure_rates(certificate::Issuer& issuer, const Clock& clock) {
  const Key rsa_ca = new_key(KeyType::kRsa);
  const Key p256_ca = new_key(KeyType::kEcdsaP256);
  certificate::TrustedRoots roots;  // as the manager keeps them
  const auto whole = [&](const KeyParameters& key) {
    return certificate::issue(issuer, kSubject, std::chrono::hours(48), key, clock, roots).ok();
  };
  const double p256 = per_second(kP256Keys, [&] { return whole({}); });
  const double p256_alone =
      per_second(kP256Keys, [&] { return openssl_alone(KeyType::kEcdsaP256, *p256_ca); });
  const double rsa = per_second(kRsaKeys, [&] { return whole({KeyType::kRsa, 2048}); });
  const double rsa_alone =
      per_second(kRsaKeys, [&] { return openssl_alone(KeyType::kRsa, *rsa_ca); });
  std::cout << "certificates a second of one core\n"
            << "  P-256: " << p256 << "  (OpenSSL's key and signature alone: " << p256_alone
            << ")\n"
            << "  RSA-2048: " << rsa << "  (OpenSSL's key and signature alone: " << rsa_alone
            << ")\n"
            << "  P-256 beside the original's limit: " << p256 / rsa_alone << " x, at least "
            << kLeastP256Ratio << '\n'
            << "  RSA-2048 beside it: " << rsa / rsa_alone << " x, at least " << kLeastRsaRatio
            << '\n';
  return p256 >= kLeastP256Ratio * rsa_alone && rsa >= kLeastRsaRatio * rsa_alone;
}

bool cycle(certificate::Manager& manager, int times) {
  for (int i = 0; i < times; ++i) {
    certificate::Subject subject = kSubject;
    subject.common_name = CommonName("w" + std::to_string(i % 1000));
    if (!manager.issue_certificate(subject, std::chrono::hours(48)).ok()) return false;
    manager.release_certificate(subject.common_name);
  }
  return manager.list_certificates().empty();
}

bool measure_memory(std::unique_ptr<certificate::Issuer> issuer, const Clock& clock, int cycles) {
  testing::ThreadExecutor executor(1);
  WarningLog log;
  CountingMetrics metrics;
  RandomRng rng(1);
  const auto manager = certificate::make_manager(
      {.issuer = std::move(issuer), .runtime = {executor, executor, clock, rng, log, metrics}});
  bool done = cycle(*manager, std::max(cycles / 10, 1));
  const double before = resident_bytes();
  done = cycle(*manager, cycles) && done;
  const double growth = resident_bytes() - before;
  std::cout << "memory over " << cycles << " issue and release cycles: " << growth / 1024
            << " kB, at most " << kMostGrowthBytes / 1024 << '\n';
  return done && growth <= kMostGrowthBytes;
}

int run(int cycles, bool gate) {
  const TemporaryDirectory directory;
  const SystemClock clock;
  auto issuer =
      certificate::load_or_create_directory_ca({.directory = directory.path + "/ca",
                                                .trust_domain = TrustDomain("cluster.local"),
                                                .clock = clock});
  if (!issuer.ok()) {
    std::cerr << issuer.error().text() << '\n';
    return 1;
  }
  const bool fast = measure_rates(**issuer, clock);
  const bool flat = measure_memory(*std::move(issuer), clock, cycles);
  if (!fast || !flat) std::cout << "not as it should be\n";
  return (fast && flat) || !gate ? 0 : 1;
}

}  // namespace
}  // namespace osm::bench

int main(int argc, char** argv) {
  int cycles = 100'000;
  bool gate = false;
  CLI::App app{"Certificates: per second and core, memory"};
  app.add_option("--cycles", cycles, "Issue and release cycles")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--gate", gate, "1 when something is not as it should be");
  CLI11_PARSE(app, argc, argv);
  return osm::bench::run(cycles, gate);
}
