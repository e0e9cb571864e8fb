// Only the root rotation, which checks objects, hands one to the function that opens its CA.
#include "osm/certificate/root_rotation.hpp"

bool use(const osm::RootRotationOptions& options, const osm::AllowedRoot& allowed) {
#ifdef AllowedRootMade
  const osm::AllowedRoot root(allowed.object());
#elif defined(AllowedRootWithoutObject)
  const osm::AllowedRoot root = osm::AllowedRoot();
#else
  const osm::AllowedRoot& root = allowed;
#endif
#ifdef AllowedRootFromObject
  return options.open(root.object()).ok();
#else
  return options.open(root).ok() && allowed.object().name.empty();
#endif
}
