// The driver's end of a server under measurement: a child process that obeys serve()'s commands.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "osm/result.hpp"
#include "synthetic_mesh.hpp"

namespace osm::bench {

struct ServerStatus {
  double cpu_seconds = 0;
  std::uint64_t resident_bytes = 0;
  std::map<std::string, double> metrics;

  // Over all label sets.
  double sum(const std::string& metric) const;
};

class ServerProcess {
 public:
  // Runs this program again as `mesh_bench <arguments>` and waits until it listens.
  static Result<std::unique_ptr<ServerProcess>> start(const std::vector<std::string>& arguments);
  ~ServerProcess();  // ends it and waits

  const std::string& address() const { return address_; }
  Result<ServerStatus> status();
  Status change(Change change);

 private:
  ServerProcess() = default;
  Result<std::string> read_line();
  Result<std::string> ask(const std::string& command);

  pid_t pid_ = -1;
  std::FILE* commands_ = nullptr;
  std::FILE* answers_ = nullptr;
  std::string address_;
};

}  // namespace osm::bench
