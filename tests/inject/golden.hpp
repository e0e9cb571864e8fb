// Text compared with a file beside the test; tools/golden writes it.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "lib/places.hpp"

namespace osm::inline v1::testing {

inline void check_golden(const std::string& name, const std::string& text) {
  const auto path = source_dir() / "tests/data/inject" / name;
  if (std::getenv("OSM_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  CHECK_MESSAGE(text == content.str(), path.string(), " differs; tools/golden writes it anew");
}

}  // namespace osm::inline v1::testing
