#include "host/process_use.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace osm::inline v1::host {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = 0;  // in pages
  statm >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double open_descriptors(double limit) {
  std::error_code failed;
  const std::filesystem::directory_iterator found("/proc/self/fd", failed);
  if (failed == std::errc::too_many_files_open) return limit;
  if (failed) return 0;
  return static_cast<double>(std::distance(begin(found), end(found)) - 1);  // not the directory's
}

}  // namespace

ProcessUse process_use() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  const auto limit = static_cast<double>(descriptors.rlim_cur);
  return {.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime),
          .resident_bytes = resident_bytes(),
          .open_descriptors = open_descriptors(limit),
          .max_descriptors = limit};
}

}  // namespace osm::inline v1::host
