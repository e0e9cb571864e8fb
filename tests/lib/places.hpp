// Places that a test reads: the source tree and the pinned Envoy, found from where its program was
// built.
#pragma once

#include <filesystem>
#include <string>

namespace osm::inline v1::testing {

// CMake links them beside the programs. A path in the code would differ in each clone, so that
// ccache would compile every test again there.
inline std::filesystem::path beside_this_program(const char* name) {
  return std::filesystem::canonical("/proc/self/exe").parent_path() / name;
}

// Root of the source tree.
inline std::filesystem::path source_dir() { return beside_this_program("source"); }

// The Envoy that tests run; the link leads nowhere before tools/setup.
inline std::string envoy() { return beside_this_program("envoy").string(); }

}  // namespace osm::inline v1::testing
