// Scripts that the CNI plugin would have run as root; the fuzzer runs none.
#pragma once

#include <string>
#include <vector>

namespace osm::fuzz {

std::vector<std::string>& cni_runs();

}  // namespace osm::fuzz
