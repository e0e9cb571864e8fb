#include <grpc/support/log.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iostream>

#include <boost/json.hpp>

#include "measured_server.hpp"

namespace osm::bench {
namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Free memory is handed back first, so that what is counted is what is held.
std::uint64_t resident_bytes() {
  malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

boost::json::object status_of(const MeasuredServer& server) {
  boost::json::object metrics;
  for (const auto& [name, value] : server.metrics())
    if (std::isfinite(value))
      metrics[name] = value;  // JSON has no infinity: a root that never ends
  const double cpu = cpu_seconds();
  return {{"cpu_seconds", cpu}, {"resident_bytes", resident_bytes()}, {"metrics", metrics}};
}

boost::json::object change(MeasuredServer& server, const std::string& kind) {
  for (Change candidate : kChanges) {
    if (change_text(candidate) != kind) continue;
    const Status done = server.apply(candidate);
    if (!done) return {{"error", done.error().text()}};
    return {};
  }
  return {{"error", "no such change: " + kind}};
}

}  // namespace

void serve(MeasuredServer& server) {
  // gRPC's clients name a server without a name by its address, and its server logs each as
  // unknown.
  gpr_set_log_function([](gpr_log_func_args*) {});
  std::cout << boost::json::object{{"address", server.address()}} << std::endl;
  for (std::string command; std::getline(std::cin, command);) {
    const std::string prefix = "change ";
    if (command == "status") {
      std::cout << status_of(server) << std::endl;
    } else if (command.starts_with(prefix)) {
      std::cout << change(server, command.substr(prefix.size())) << std::endl;
    } else {
      std::cout << boost::json::object{{"error", "no such command: " + command}} << std::endl;
    }
  }
}

}  // namespace osm::bench
