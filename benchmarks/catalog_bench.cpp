// The catalog's cost of one change, from the notification to the published snapshot, in meshes of
// 10 to 1,000 services with one proxy each.
#include <benchmark/benchmark.h>

#include "built_mesh.hpp"

namespace osm::bench {
namespace {

void one_change(benchmark::State& state, Change change) {
  const auto services = static_cast<int>(state.range(0));
  BuiltMesh mesh({.permissive = true, .proxies = services, .services = services});
  for (auto _ : state) benchmark::DoNotOptimize(mesh.after(change));
}
BENCHMARK_CAPTURE(one_change, endpoint, Change::kEndpoint)->Arg(10)->Arg(100)->Arg(1000);
BENCHMARK_CAPTURE(one_change, policy, Change::kPolicy)->Arg(10)->Arg(100)->Arg(1000);

}  // namespace
}  // namespace osm::bench
