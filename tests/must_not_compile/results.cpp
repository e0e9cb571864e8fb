// Errors and handles cannot be dropped by accident; keys cannot be copied.
#include "osm/certificate/manager.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"

osm::Result<int> number();
osm::Status status();
osm::Subscription subscribe();

bool use(const osm::certificate::PrivateKey& key) {
#ifdef ResultIgnored
  number();
#endif
#ifdef StatusIgnored
  status();
#endif
#ifdef SubscriptionIgnored
  subscribe();
#endif
  osm::Subscription handle = subscribe();
#ifdef SubscriptionCopied
  osm::Subscription copy = handle;
#else
  osm::Subscription copy = std::move(handle);
#endif
#ifdef PrivateKeyCopied
  const osm::certificate::PrivateKey other = key;
#else
  const osm::certificate::PrivateKey& other = key;
#endif
  return copy && other.empty() && number().ok() && status().ok();
}
