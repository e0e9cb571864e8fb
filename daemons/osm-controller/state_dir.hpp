// The directory that is this controller's alone: its CA, its admin socket, and the lock on both.
#pragma once

#include <string>
#include <utility>

#include "base/descriptor.hpp"
#include "osm/result.hpp"

namespace osm::controller {

class StateDir {
 public:
  // Creates the directory (mode 0700) when it is absent and locks it for as long as the value
  // lives; the kernel unlocks it when the process ends, however it does.
  // Failure: kUnavailable (another controller has it), kStorage (another user owns it, others may
  // write to it, no space); with the remedy.
  static Result<StateDir> lock(const std::string& path);

  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  StateDir(std::string path, Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  Descriptor lock_;
};

// Failure: kStorage when `path` is no directory that can be read.
Status check_mesh_dir(const std::string& path);

}  // namespace osm::controller
