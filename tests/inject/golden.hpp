// Text compared with a file beside the test; tools/golden writes it.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace osm::inline v1::testing {

inline void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(OSM_SOURCE_DIR "/tests/inject/golden/") + name;
  if (std::getenv("OSM_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  CHECK_MESSAGE(text == content.str(), path, " differs; tools/golden writes it anew");
}

}  // namespace osm::inline v1::testing
