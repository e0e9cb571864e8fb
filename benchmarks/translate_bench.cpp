// The cost of one resource by type: gathering its inputs, keying them, encoding them.
#include <benchmark/benchmark.h>

#include "built_mesh.hpp"
#include "translate/translate.hpp"

namespace osm::bench {
namespace {

constexpr MeshSize kMesh{.permissive = false, .proxies = 100, .services = 100};

translate::ProxyClass first_class(BuiltMesh& mesh) {
  return translate::class_of(*mesh.snapshot(), mesh.workload(0));
}

void gather_inputs(benchmark::State& state) {
  BuiltMesh mesh(kMesh);
  const auto type = static_cast<XdsType>(state.range(0));
  const auto proxy_class = first_class(mesh);
  const auto snapshot = mesh.snapshot();
  std::size_t resources = 0;
  for (auto _ : state)
    for (const auto& input : translate::inputs_for(*snapshot, proxy_class, type)) {
      benchmark::DoNotOptimize(input->key());
      ++resources;
    }
  state.SetItemsProcessed(static_cast<std::int64_t>(resources));
  state.SetLabel(std::string(xds_type_text(type)));
}

void encode(benchmark::State& state) {
  BuiltMesh mesh(kMesh);
  const auto type = static_cast<XdsType>(state.range(0));
  const auto inputs = translate::inputs_for(*mesh.snapshot(), first_class(mesh), type);
  std::size_t bytes = 0;
  for (auto _ : state)
    for (const auto& input : inputs) bytes += input->encode().any.size();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(inputs.size()));
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  state.SetLabel(std::string(xds_type_text(type)));
}

void every_type(benchmark::internal::Benchmark* benchmark) {
  for (XdsType type : {XdsType::kCluster, XdsType::kEndpoint, XdsType::kListener, XdsType::kRoute})
    benchmark->Arg(static_cast<int>(type));
}
BENCHMARK(gather_inputs)->Apply(every_type);
BENCHMARK(encode)->Apply(every_type);

}  // namespace
}  // namespace osm::bench
