// A provider that can leave a running mesh: a host that loses a platform for good, or unloads a
// plugin, takes its endpoints away and destroys the provider.
//
//   auto consul = osm::make_removable(inventory);   // listed in ControlPlaneOptions::providers
//   ...
//   consul->remove();                               // `inventory` may be destroyed now
#pragma once

#include <memory>

#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"

namespace osm::inline v1 {

class OSM_API RemovableProvider : public EndpointsProvider {
 public:
  // Takes all endpoints of the provider out of the mesh. Afterwards it knows no service, counts as
  // synced and healthy, and does not use the provider behind it any more. Idempotent.
  // Thread: any but those in which the provider behind it announces. Blocking: until calls of that
  // provider have returned.
  virtual void remove() = 0;
};

// Passes all calls on to `provider`, which lives until remove() has returned, or longer than the
// result. Thread: any. Blocking: no.
OSM_API std::unique_ptr<RemovableProvider> make_removable(EndpointsProvider& provider);

}  // namespace osm::inline v1
