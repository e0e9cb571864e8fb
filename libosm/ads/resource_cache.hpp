// Encoded resources by the key of their input; each is encoded once for all classes. The cache
// holds weak pointers: the resource sets of classes and sessions keep used resources alive.
//
// Thread: any. A second caller for a key that is being encoded waits for that encoding.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ads/resource_set.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::ads {

class ResourceCache {
 public:
  explicit ResourceCache(MetricsSink& metrics) : metrics_(metrics) {}

  EncodedPtr get(const translate::Input& input);

  std::size_t size() const;  // live resources

 private:
  struct Slot {
    std::weak_ptr<const EncodedResource> resource;
    bool encoding = false;
  };
  void sweep();

  MetricsSink& metrics_;
  mutable std::mutex mutex_;
  std::condition_variable encoded_;
  std::unordered_map<Digest, Slot> slots_;
  std::size_t sweep_at_ = 1024;
};

}  // namespace osm::inline v1::ads
