// Waits on file descriptors for code without an event loop of its own (inotify in the directory
// store).
#pragma once

#include <functional>

#include "osm/detail/api.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

class OSM_API FdWatcher {
 public:
  virtual ~FdWatcher() = default;

  // Calls `on_readable` whenever `fd` can be read without blocking, once per readiness; the
  // callback reads until EAGAIN. `fd` is non-blocking, stays the caller's, and is closed only after
  // the handle died. A failed descriptor (hang-up, error) counts as readable.
  // Failure: an empty handle if the kernel cannot wait on the descriptor (a regular file).
  // Thread: of the executor, one call at a time per handle; must not block.
  // Lifetime: until the handle dies; its destructor waits for a running call, unless it runs inside
  // that call.
  virtual Subscription watch(int fd, std::function<void()> on_readable) = 0;
};

}  // namespace osm::inline v1
