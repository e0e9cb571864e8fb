// One writer publishes immutable values; many readers load the newest. (The mutex only guards a
// pointer copy: gcc 12's atomic<shared_ptr> trips ThreadSanitizer.)
#pragma once

#include <memory>
#include <mutex>

#include "osm/notifier.hpp"

namespace osm::inline v1 {

template <class T>
class SnapshotCell {
 public:
  // The newest value; null before the first publish. Thread: any.
  std::shared_ptr<const T> load() const {
    std::lock_guard lock(mutex_);
    return value_;
  }

  // Publishes a value. Subscribers run in this call and see the new value; every published value is
  // announced, in order. Thread: the one writer.
  void publish(std::shared_ptr<const T> value) {
    {
      std::lock_guard lock(mutex_);
      value_ = value;
    }
    published_.notify(value);
  }

  Subscription subscribe(std::function<void(const std::shared_ptr<const T>&)> on_publish) {
    return published_.subscribe(std::move(on_publish));
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;
  Notifier<const std::shared_ptr<const T>&> published_;
};

}  // namespace osm::inline v1
