#include "fuzz/cni_runs.hpp"

#include "daemons/osm-cni/pod_network.hpp"

namespace osm::fuzz {

std::vector<std::string>& cni_runs() {
  static std::vector<std::string> runs;
  return runs;
}

}  // namespace osm::fuzz

namespace osm::cni {

Status run_in(const PodNetwork&, const std::filesystem::path&, const std::string& script) {
  fuzz::cni_runs().push_back(script);
  return {};
}

}  // namespace osm::cni
