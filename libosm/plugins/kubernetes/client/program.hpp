// Runs a program without a shell, and reads its output.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

struct Program {
  std::string command;  // a path if it contains a slash, else looked up in the environment's PATH
  std::vector<std::string> arguments{};
  std::map<std::string, std::string> environment{};  // the complete environment
  std::chrono::milliseconds deadline{60000};         // afterwards it and its children are killed
};

// Result: its standard output, if it ended with 0. Its input is empty. Its standard error is
// dropped, since it may contain secrets.
// Failure: kNotFound (no such program), kUnavailable (another exit code, a signal),
// kDeadlineExceeded, kTooLarge (over 1 MiB). Blocking: until it ends or the deadline.
Result<std::string> run_program(const Program& program);

}  // namespace osm::inline v1::kubernetes
