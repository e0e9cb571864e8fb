// The directory that is this program's alone: its CA, its records, its admin socket, and the lock
// on all of them.
//
//   auto state = host::StateDir::lock({.path = "/var/lib/vendor", .program = "vendor-mesh"});
//   auto backend = make_directory_backend({..., .state_dir = "/var/lib/vendor"});
#pragma once

#include <memory>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::host {

// A directory, and its names in errors.
struct StateDirOptions {
  std::string path;
  std::string program = "program";          // of each process that may use the directory
  std::string setting = "state directory";  // the flag or setting that has `path`
};

class OSM_API StateDir {
 public:
  // Creates the directory (mode 0700) when it is absent and locks it for as long as the value
  // lives; the kernel unlocks it when the process ends, however it does.
  // Failure: kUnavailable (another process has it), kStorage (another user owns it, others may
  // write to it, no space); with the remedy. Thread: any. Blocking: disk.
  static Result<StateDir> lock(const StateDirOptions& options);

  ~StateDir();
  StateDir(StateDir&&) noexcept;
  StateDir& operator=(StateDir&&) noexcept;

  // The path of a file in the directory.
  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  class Lock;
  StateDir(std::string path, std::unique_ptr<Lock> lock);

  std::string path_;
  std::unique_ptr<Lock> lock_;
};

}  // namespace osm::inline v1::host
