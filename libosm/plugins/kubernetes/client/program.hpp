// Runs a program, without a shell, and reads what it prints.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

struct Program {
  std::string command;  // with a slash a path, else looked up in the environment's PATH
  std::vector<std::string> arguments{};
  std::map<std::string, std::string> environment{};  // all it gets
  std::chrono::milliseconds deadline{60000};         // then it and its children are killed
};

// Result: its standard output, if it ended with 0; its input is empty and its standard error is
// thrown away, since both may hold what no log should.
// Failure: kNotFound (no such program), kUnavailable (another exit code, a signal),
// kDeadlineExceeded, kTooLarge (over 1 MiB). Blocking: until it ends or the deadline.
Result<std::string> run_program(const Program& program);

}  // namespace osm::inline v1::kubernetes
