// The plugin on a node: its program, the files of the image osm-init beside it, and its entry in
// the node's CNI configuration.
#pragma once

#include <filesystem>
#include <string>

#include "osm/result.hpp"

namespace osm::cni {

inline constexpr const char* kProgram = "osm-cni";
inline constexpr const char* kRoot = "osm-cni.root";  // beside the program

struct Node {
  std::filesystem::path programs;        // its CNI programs: /opt/cni/bin
  std::filesystem::path configurations;  // its CNI configurations: /etc/cni/net.d
};

// Copies this program and the directories of `image`, an unpacked image, to the node; both appear
// at once.
// Failure: kStorage naming the path.
Status install_programs(const Node& node, const std::filesystem::path& image);

// Adds the plugin to the configuration that the runtime uses, the first by name, unless it is
// there. Result: the file. Failure: kNotReady: there is none yet; kInvalidField, kStorage naming
// the file.
Result<std::filesystem::path> chain(const Node& node);

// True if the runtime calls the plugin now.
bool is_chained(const Node& node);

// Takes the plugin out of every configuration, and removes its files.
// Failure: kStorage naming the path.
Status remove(const Node& node);

}  // namespace osm::cni
