// Resources of this process.
#pragma once

namespace osm::inline v1::host {

// Resources that this process uses. A number that cannot be read is 0.
struct ProcessUse {
  double cpu_seconds = 0;  // of all threads, user and system
  double resident_bytes = 0;
  double open_descriptors = 0;
  double max_descriptors = 0;  // the soft limit
};
// Thread: any. Blocking: briefly, for /proc.
ProcessUse process_use();

}  // namespace osm::inline v1::host
