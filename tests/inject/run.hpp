// Programs the tests run: exit status and output, standard error included.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "lib/temporary_directory.hpp"

namespace osm::inline v1::testing {

struct Run {
  int status = -1;
  std::string output;
};

inline Run run(const std::string& command) {
  std::FILE* pipe = ::popen(("( " + command + " ) 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Run result;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.output.append(buffer.data(), n);
  }
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return result;
}

}  // namespace osm::inline v1::testing
