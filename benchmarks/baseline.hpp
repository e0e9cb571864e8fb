// benchmarks/baseline.json: the counts that must not grow, per mesh or cluster.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "measurement.hpp"
#include "osm/result.hpp"

namespace osm::bench {

// By name: "endpoint.responses".
using Counts = std::map<std::string, std::uint64_t>;

struct Baseline {
  // By MeshSize::name() or ClusterSize::name().
  std::map<std::string, Counts> counts;
  double bytes_per_proxy_beyond_bare = 25'000;
};

Result<Baseline> load_baseline(const std::string& path);
Status save_baseline(const std::string& path, const Baseline& baseline);

// Result: a sentence for every count above the baseline, below half of it, missing, or unknown to
// it. Too little is no success: nothing was measured, or the baseline no longer tells anything.
// Bytes may grow by 2 %: signatures differ in length.
// Memory is judged from 1,000 proxies on, below that what proxies share outweighs what each costs.
std::vector<std::string> regressions(const Measurement& measured, const Baseline& baseline);
// Regressions of counts alone, under the name that the baseline has for them.
std::vector<std::string> regressions(const std::string& name, const Counts& counts,
                                     const Baseline& baseline);

}  // namespace osm::bench
