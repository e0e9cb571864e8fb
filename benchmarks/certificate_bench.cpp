// Certificates per second of one core, as a restart of the whole mesh requests them.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

#include "certificate/issuance.hpp"
#include "model/names.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/runtime/system.hpp"
#include "synthetic_mesh.hpp"

namespace osm::bench {
namespace {

void issue(benchmark::State& state, KeyType key) {
  std::string directory = (std::filesystem::temp_directory_path() / "osm_bench.XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) return state.SkipWithError("no temporary directory");
  {
    const SystemClock clock;
    auto issuer = certificate::load_or_create_directory_ca(
        {.directory = directory + "/ca", .trust_domain = kTrustDomain, .clock = clock});
    const ServiceIdentity identity{"bench", "account"};
    for (auto _ : state) {
      if (!issuer) {
        state.SkipWithError(issuer.error().text().c_str());
        break;
      }
      const auto issued =
          certificate::issue(**issuer,
                             {.common_name = model::service_common_name(kTrustDomain, identity),
                              .spiffe_id = spiffe_id(kTrustDomain, identity)},
                             std::chrono::hours(48), {.type = key}, clock);
      if (!issued) {
        state.SkipWithError(issued.error().text().c_str());
        break;
      }
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(issue, ecdsa_p256, KeyType::kEcdsaP256);
BENCHMARK_CAPTURE(issue, rsa_2048, KeyType::kRsa);

}  // namespace
}  // namespace osm::bench
