#include "ads/resource_cache.hpp"
#include "ads/metrics.hpp"

#include <algorithm>

namespace osm::inline v1::ads {

EncodedPtr ResourceCache::get(const translate::Input& input) {
  const Digest key = input.key();
  std::unique_lock lock(mutex_);
  while (true) {
    Slot& slot = slots_[key];
    if (EncodedPtr resource = slot.resource.lock()) return resource;
    if (!slot.encoding) {
      slot.encoding = true;
      break;
    }
    encoded_.wait(lock);
  }
  lock.unlock();
  auto resource = std::make_shared<const EncodedResource>(input.encode());
  metrics_.add(kResourcesEncoded, {{"type", xds_type_text(input.type())}}, 1);
  lock.lock();
  slots_[key] = Slot{resource, false};
  if (slots_.size() > sweep_at_) sweep();
  encoded_.notify_all();
  return resource;
}

std::size_t ResourceCache::size() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), [](const auto& slot) {
    return !slot.second.resource.expired();
  }));
}

void ResourceCache::sweep() {
  std::erase_if(slots_, [](const auto& entry) {
    return !entry.second.encoding && entry.second.resource.expired();
  });
  sweep_at_ = std::max<std::size_t>(1024, 2 * slots_.size());
}

}  // namespace osm::inline v1::ads
