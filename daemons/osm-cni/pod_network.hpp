// Scripts in the network namespace of a pod, and the check that its traffic is intercepted.
#pragma once

#include <filesystem>
#include <string>

#include "osm/result.hpp"

namespace osm::cni {

struct PodNetwork {
  std::string ns;              // path of its network namespace
  std::string ip{};            // its IPv4 address; empty: it has none
  std::string addresses;       // all its addresses, with commas between them
  std::string name_servers{};  // with blanks between them
};

// Runs `script` by /bin/sh of `root`, a directory with the files of the image osm-init, as root in
// the pod's network namespace. Ends it after 20 seconds.
// Failure: kUnavailable with what the script said.
Status run_in(const PodNetwork& pod, const std::filesystem::path& root, const std::string& script);

// True if a direct connection to the proxy's outbound port of this network namespace is refused
// although somebody listens there. Only the rules of an interception do so.
// Failure: kUnavailable: it cannot be known.
Result<bool> is_intercepted();

}  // namespace osm::cni
