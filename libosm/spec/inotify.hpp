// inotify(7) as values: directories in, events out.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::spec {

class Inotify {
 public:
  struct Event {
    int watch = -1;  // -1: events were lost (IN_Q_OVERFLOW)
    std::uint32_t mask = 0;
    std::string name;  // in the directory; empty: the directory itself
  };

  static Result<std::unique_ptr<Inotify>> open();

  int fd() const { return fd_.get(); }

  // Result: the directory's watch; equal inodes have equal watches. Failure: kUnavailable.
  Result<int> add(const std::string& directory);
  void remove(int watch);

  // Reads until nothing is left. Thread: any.
  void read_available();
  // The events read so far, and those that can be read now, in order. Thread: any.
  std::vector<Event> take();

 private:
  explicit Inotify(int fd) : fd_(fd) {}
  void read_locked();

  const Descriptor fd_;
  std::mutex mutex_;
  std::vector<Event> events_;
};

}  // namespace osm::inline v1::spec
