// Environment variables that lead a contract's program to a real server. Without them it tests the
// fake one.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>

namespace osm::contract {

inline std::optional<std::string> setting(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// A setting that a real server cannot be tested without.
inline std::string required_setting(const std::string& name) {
  auto value = setting(name);
  if (!value) throw std::runtime_error(name + " is not set; see tests/contract/README.md");
  return *value;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace osm::contract
